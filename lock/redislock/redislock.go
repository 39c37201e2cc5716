// Package redislock has locks in Redis, 5 and later, or a server that speaks its
// scripts, alone or as a cluster.
//
// Redis forgets: it copies to its replicas after it has answered, may keep
// nothing over a restart, and may evict keys that expire. So a lock in Redis saves
// work and no more, like any lock, and a little sooner than one in a database
// (sqllock). The fence grows also after Redis has lost its memory, because it is
// never less than the server's time in microseconds.
package redislock

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce/internal/kit"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/internal/lockkit"
)

//go:embed acquire.lua
var acquireText string

//go:embed extend.lua
var extendText string

//go:embed release.lua
var releaseText string

// Each is sent by its hash, and as a text if the server doesn't know that: after
// a restart, say.
var (
	acquireScript = redis.NewScript(acquireText)
	extendScript  = redis.NewScript(extendText)
	releaseScript = redis.NewScript(releaseText)
)

// remember is how long Redis remembers a key that nobody locks any more: its last
// fence, and who released it. After that only the server's clock makes fences
// grow, so it would have to be set back by a week to break their order.
const remember = 7 * 24 * time.Hour

// Options tune New. The zero value works, and so does nil.
type Options struct {
	// Prefix begins the names of all keys in Redis. It must not contain braces,
	// which decide where a cluster keeps a key. Default: "sendonce:lock:".
	Prefix string
}

// Locker is a lock.Locker in Redis. It has two keys in Redis for each lock, which
// both expire: the lease, "sendonce:lock:{name}", for as long as that lasts, and
// the memory, "sendonce:lock:{name}:memory", a week after the last use. In name,
// braces, percent signs and what is not printable stand as %XX.
//
// Calls return when their context ends, whatever the client's ContextTimeoutEnabled
// says; without that a goroutine may wait for the client's ReadTimeout longer.
type Locker struct {
	client redis.UniversalClient
	prefix string
}

var _ lock.Locker = (*Locker)(nil)

// New returns a Locker on this client, which stays the caller's to close. Options
// may be nil. It does not connect.
func New(client redis.UniversalClient, o *Options) (*Locker, error) {
	if client == nil {
		return nil, errors.New("sendonce: the Redis client is nil")
	}
	l := &Locker{client: client, prefix: "sendonce:lock:"}
	if o != nil && o.Prefix != "" {
		l.prefix = o.Prefix
	}
	if strings.ContainsAny(l.prefix, "{}") {
		return nil, fmt.Errorf("sendonce: redislock.Options.Prefix %q has a brace, which would decide where a cluster keeps the keys", l.prefix)
	}
	return l, nil
}

// Keys returns the names of the two keys that Redis has of a lock, for operators:
// deleting the first ends the lease, and its holder is told at the next renewal.
func (l *Locker) Keys(key string) (lease, memory string) {
	// One hash tag, that the key can neither close nor open: both are in one slot.
	lease = l.prefix + "{" + kit.Escape(key, "{}") + "}"
	return lease, lease + ":memory"
}

// Acquire implements lock.Locker.
func (l *Locker) Acquire(ctx context.Context, key string, token lock.Token, ttl time.Duration) (lock.Lease, error) {
	ttl, err := check(ctx, key, token, ttl)
	if err != nil {
		return lock.Lease{}, err
	}
	start := time.Now()
	reply, err := l.run(ctx, acquireScript, key, string(token), ttl.Milliseconds(), (remember + ttl).Milliseconds())
	if err != nil {
		return lock.Lease{}, fmt.Errorf("sendonce: acquire lock %q in Redis: %w", key, err)
	}
	pair, err := numbered(reply)
	if err != nil {
		return lock.Lease{}, fmt.Errorf("sendonce: acquire lock %q in Redis: %w", key, err)
	}
	if pair.word == "held" {
		return lock.Lease{}, &lock.HeldError{Key: key, For: time.Duration(max(pair.number, 0)) * time.Millisecond}
	}
	return lock.Lease{Key: key, Token: token, Fence: pair.number, Until: start.Add(ttl)}, nil
}

// Extend implements lock.Locker. A lease that is over can't be extended: Redis
// has deleted it.
func (l *Locker) Extend(ctx context.Context, le lock.Lease, ttl time.Duration) (lock.Lease, error) {
	ttl, err := check(ctx, le.Key, le.Token, ttl)
	if err != nil {
		return le, err
	}
	start := time.Now()
	reply, err := l.run(ctx, extendScript, le.Key, string(le.Token), le.Fence, ttl.Milliseconds(), (remember + ttl).Milliseconds())
	if err := verdict("extend", le, reply, err); err != nil {
		return le, err
	}
	le.Until = start.Add(ttl)
	return le, nil
}

// Release implements lock.Locker.
func (l *Locker) Release(ctx context.Context, le lock.Lease) error {
	if _, err := check(ctx, le.Key, le.Token, time.Millisecond); err != nil {
		return err
	}
	reply, err := l.run(ctx, releaseScript, le.Key, string(le.Token), remember.Milliseconds())
	return verdict("release", le, reply, err)
}

func check(ctx context.Context, key string, token lock.Token, ttl time.Duration) (time.Duration, error) {
	if err := lockkit.CheckName(key, token); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return lockkit.CheckTTL(ttl, time.Millisecond)
}

// run runs a script and returns when ctx ends: the client by itself may wait for
// an answer until its ReadTimeout.
func (l *Locker) run(ctx context.Context, s *redis.Script, key string, args ...any) (any, error) {
	lease, memory := l.Keys(key)
	return kit.Await(ctx, func() (any, error) {
		return s.Run(ctx, l.client, []string{lease, memory}, args...).Result()
	})
}

// verdict reads the answer to Extend and Release.
func verdict(what string, le lock.Lease, reply any, err error) error {
	if err != nil {
		return fmt.Errorf("sendonce: %s lock %q in Redis: %w", what, le.Key, err)
	}
	switch reply {
	case "ok":
		return nil
	case "taken":
		return &lock.LostError{Key: le.Key, Fence: le.Fence, Reason: lock.Taken}
	case "gone":
		return &lock.LostError{Key: le.Key, Fence: le.Fence, Reason: lock.Expired}
	}
	return fmt.Errorf("sendonce: %s lock %q in Redis: its answer is %v", what, le.Key, reply)
}

// pair is the answer to Acquire. Numbers come as text: a script's would be cut
// to an integer by way of a double.
type pair struct {
	word   string
	number int64
}

func numbered(reply any) (pair, error) {
	list, _ := reply.([]any)
	if len(list) != 2 {
		return pair{}, fmt.Errorf("its answer is %v", reply)
	}
	word, _ := list[0].(string)
	text, _ := list[1].(string)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || word != "granted" && word != "held" {
		return pair{}, fmt.Errorf("its answer is %v", reply)
	}
	return pair{word, n}, nil
}
