package redislock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// EvictionWarning says what is wrong with how Redis frees memory: under a policy
// that evicts, keys that expire are among the first to go, and a lock with them.
// It returns "" if nothing is wrong. If the settings may not be read, as with many
// hosted servers, the warning says so: that is no error. In a cluster all masters
// are asked. Call it at the start of a program, and log what it says.
func EvictionWarning(ctx context.Context, client redis.UniversalClient) (string, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return nodeWarning(ctx, client)
	}
	var mu sync.Mutex
	var first string
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		warning, err := nodeWarning(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		if first == "" && warning != "" {
			first = node.Options().Addr + ": " + warning
		}
		return err
	})
	return first, err
}

func nodeWarning(ctx context.Context, client redis.Cmdable) (string, error) {
	memory, policy, err := eviction(ctx, client)
	var refused redis.Error
	if errors.As(err, &refused) {
		return fmt.Sprintf("it is not known whether Redis evicts keys, and locks with them, as its settings may not be read (%v): "+
			"make sure that maxmemory-policy is noeviction", refused), nil
	}
	if err != nil {
		return "", fmt.Errorf("sendonce: read the settings of Redis: %w", err)
	}
	if policy == "noeviction" || memory == "0" {
		return "", nil
	}
	return fmt.Sprintf("Redis evicts keys when its memory is full (maxmemory %s, maxmemory-policy %s), and locks with them: "+
		"two may then hold one. Set maxmemory-policy noeviction, or keep locks in a Redis of their own", memory, policy), nil
}

// eviction reads the two settings. INFO is allowed to more users than CONFIG, and
// has both since Redis 3.2.
func eviction(ctx context.Context, client redis.Cmdable) (memory, policy string, err error) {
	info, infoErr := client.Info(ctx, "memory").Result()
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "maxmemory":
			memory = value
		case "maxmemory_policy":
			policy = value
		}
	}
	if infoErr == nil && memory != "" && policy != "" {
		return memory, policy, nil
	}
	config, err := client.ConfigGet(ctx, "maxmemory*").Result()
	if err != nil {
		return "", "", err
	}
	return config["maxmemory"], config["maxmemory-policy"], nil
}
