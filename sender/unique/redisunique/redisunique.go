// Package redisunique keeps unique keys in Redis, 5 and later, or a server that
// speaks its scripts, alone or as a cluster.
//
// Redis forgets: it copies to its replicas after it has answered, may keep nothing
// over a restart, and may evict keys that expire. What it forgets is unique no more,
// so keep it with appendonly and without eviction
// (redislock.EvictionWarning looks), or use sqlunique. Every key of ours expires.
package redisunique

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce/internal/kit"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/sender/unique"
)

//go:embed unique.lua
var text string

// It is sent by its hash, and as a text if the server doesn't know that: after a
// restart, say.
var script = redis.NewScript(text)

// Options tune New. The zero value works, and so does nil.
type Options struct {
	// Prefix begins the names of all keys in Redis. Default: "sendonce:unique:".
	Prefix string
}

// Store is a unique.Store in Redis. It has one hash for each key, which expires
// when the key is free. A call is one script on that one hash.
//
// Calls return when their context ends, whatever the client's ContextTimeoutEnabled
// says; without that a goroutine may wait for the client's ReadTimeout longer.
type Store struct {
	client redis.UniversalClient
	prefix string
}

var _ unique.Store = (*Store)(nil)

// New returns a Store on this client, which stays the caller's to close. Options may
// be nil. It does not connect.
func New(client redis.UniversalClient, o *Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("sendonce: the Redis client is nil")
	}
	s := &Store{client: client, prefix: "sendonce:unique:"}
	if o != nil && o.Prefix != "" {
		s.prefix = o.Prefix
	}
	return s, nil
}

// Name returns the name that a key has in Redis, for operators: deleting it frees
// the key. What is not printable in the key stands as %XX, and a long key is named
// by its hash.
func (s *Store) Name(key string) string { return s.prefix + kit.Name(key, "") }

// call is one run of the script.
type call struct {
	verb, row, id, token, extra string
	span                        time.Duration
}

func (s *Store) run(ctx context.Context, key string, c call) (any, error) {
	if key == "" {
		return nil, errors.New("sendonce: the unique key is empty")
	}
	reply, err := kit.Await(ctx, func() (any, error) {
		return script.Run(ctx, s.client, []string{s.Name(key)}, c.verb, c.row, c.id, c.token, c.span.Microseconds(), c.extra).Result()
	})
	if err != nil {
		return nil, fmt.Errorf("sendonce: %s a unique key in Redis: %w", c.verb, err)
	}
	return reply, nil
}

// stand runs a call that answers with what is in the way.
func (s *Store) stand(ctx context.Context, key string, c call) (*unique.Standing, error) {
	reply, err := s.run(ctx, key, c)
	if err != nil || reply == "ok" {
		return nil, err
	}
	st, err := standing(reply)
	if err != nil {
		return nil, fmt.Errorf("sendonce: %s a unique key in Redis: its answer is %v", c.verb, reply)
	}
	return st, nil
}

func standing(reply any) (*unique.Standing, error) {
	list, _ := reply.([]any)
	if len(list) != 6 {
		return nil, errors.New("its length")
	}
	words := make([]string, len(list))
	for i := range list {
		words[i], _ = list[i].(string)
	}
	var numbers [3]int64
	for i := range numbers {
		n, err := strconv.ParseInt(words[2+i], 10, 64)
		if err != nil {
			return nil, err
		}
		numbers[i] = n
	}
	return &unique.Standing{
		Row: words[0], ID: words[1], How: unique.How(numbers[0]), Version: words[5],
		Age: time.Duration(numbers[1]) * time.Microsecond, Left: time.Duration(numbers[2]) * time.Microsecond,
	}, nil
}

// Reserve implements unique.Store.
func (s *Store) Reserve(ctx context.Context, key string, o unique.Owner, d time.Duration, over string) (*unique.Standing, error) {
	return s.stand(ctx, key, call{verb: "reserve", row: o.Row, span: d, extra: over})
}

// Hold implements unique.Store.
func (s *Store) Hold(ctx context.Context, key string, o unique.Owner, ttl time.Duration, over string) (*unique.Standing, error) {
	return s.stand(ctx, key, call{verb: "hold", row: o.Row, id: o.ID, token: o.Token, span: ttl, extra: over})
}

// Extend implements unique.Store.
func (s *Store) Extend(ctx context.Context, key, token string, ttl time.Duration) error {
	reply, err := s.run(ctx, key, call{verb: "extend", token: token, span: ttl})
	if err == nil && reply == "lost" {
		return &lock.LostError{Key: key, Reason: lock.Expired}
	}
	return err
}

// Mark implements unique.Store.
func (s *Store) Mark(ctx context.Context, key string, o unique.Owner, d time.Duration) (*unique.Standing, error) {
	return s.stand(ctx, key, call{verb: "mark", row: o.Row, id: o.ID, token: o.Token, span: d})
}

// Free implements unique.Store.
func (s *Store) Free(ctx context.Context, key, token string, all bool) error {
	c := call{verb: "free", token: token}
	if all {
		c.extra = "all"
	}
	_, err := s.run(ctx, key, c)
	return err
}

// Release implements unique.Store.
func (s *Store) Release(ctx context.Context, key, row string) error {
	_, err := s.run(ctx, key, call{verb: "release", row: row})
	return err
}

// Look implements unique.Store.
func (s *Store) Look(ctx context.Context, key string) (*unique.Standing, error) {
	return s.stand(ctx, key, call{verb: "look"})
}
