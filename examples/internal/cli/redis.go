package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/redis/go-redis/v9"
)

// ConnectRedis connects to what the flag -redis names. The error says what helps,
// and holds no password.
func ConnectRedis(ctx context.Context, address string) (*redis.Client, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		// The whole URL may hold a password.
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return nil, fmt.Errorf("-redis is not understood: %w: give it as in redis://user:password@host:6379/0", err)
	}
	redis.SetLogger(quiet{})
	client := redis.NewClient(options)
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("cannot reach Redis: %w: start the server, or correct -redis, as in redis://user:password@host:6379/0", err)
	}
	return client, nil
}

// quiet drops what the client logs: it also returns it.
type quiet struct{}

// Printf drops its arguments.
func (quiet) Printf(context.Context, string, ...any) {}
