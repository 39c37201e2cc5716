package combo

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/memlock"
	"github.com/sendonce/sendonce/lock/redislock"
	"github.com/sendonce/sendonce/lock/sqllock"
	"github.com/sendonce/sendonce/partition"
)

// Claimer is what every strategy of package claim is.
type Claimer interface {
	sendonce.Claimer[Mail]
	sendonce.Ender
	sendonce.Beginner
	sendonce.Reaper
	sendonce.Counter
	Requeue(ctx context.Context, r claim.Requeue) (int64, error)
}

// Spec is all that a worker needs to know to make a Claimer. It goes through a
// pipe, so that another process can make one.
type Spec struct {
	Strategy      Strategy
	Dialect       claim.Dialect
	Lock          sqllock.Dialect
	Driver, DSN   string
	Conns         int // at most so many connections at once; 0: no limit
	RedisAddr     string
	RedisUser     string
	RedisPassword string
	RedisDB       int
	RedisPrefix   string
	Table         claim.Table
	Partitions    partition.Assignment
	Memory        *memlock.Locker `json:"-"` // shared by workers of one process; nil: one of its own
}

// Link is how one worker reaches its servers.
type Link struct {
	DB    *sqlx.DB
	redis *redis.Client
}

// Dial makes the pools of one worker. It does not connect.
func (s Spec) Dial() (*Link, error) {
	db, err := sqlx.Open(s.Driver, s.DSN)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(s.Conns)
	db.SetMaxIdleConns(max(s.Conns, 8))
	l := &Link{DB: db}
	if s.Strategy == LockedRedis {
		l.redis = redis.NewClient(&redis.Options{Addr: s.RedisAddr, Username: s.RedisUser, Password: s.RedisPassword, DB: s.RedisDB})
	}
	return l, nil
}

// Close closes the pools.
func (l *Link) Close() {
	_ = l.DB.Close()
	if l.redis != nil {
		_ = l.redis.Close()
	}
}

// Claimer makes the strategy.
func (s Spec) Claimer(ctx context.Context, l *Link) (Claimer, error) {
	switch s.Strategy {
	case Atomic:
		return claim.NewAtomic[Mail](ctx, l.DB, s.Dialect, s.Table, nil)
	case SkipLocked:
		return claim.NewSkipLocked[Mail](ctx, l.DB, s.Dialect, s.Table, nil)
	case LockedMem, LockedSQL, LockedRedis:
		locker, err := s.locker(ctx, l)
		if err != nil {
			return nil, err
		}
		return claim.NewLocked[Mail](ctx, l.DB, s.Dialect, s.Table, locker, nil)
	case Partitioned:
		return claim.NewPartitioned[Mail](ctx, l.DB, s.Dialect, s.Table, fixed(s.Partitions), nil)
	case Serial:
		return claim.NewSerial[Mail](ctx, l.DB, s.Dialect, s.Table, nil)
	case Unmarked:
		u, err := claim.NewUnmarked[Mail](ctx, l.DB, s.Dialect, s.Table, fixed(s.Partitions), nil)
		return unmarked{u}, err
	}
	return nil, fmt.Errorf("combo: no strategy %q", s.Strategy)
}

// unmarked is a Claimer as the others are, but for what it can't do.
type unmarked struct{ *claim.Unmarked[Mail] }

func (unmarked) Begin(context.Context, []sendonce.Ref) ([]sendonce.Ref, error) {
	return nil, errors.New("combo: rows are not marked")
}

func (s Spec) locker(ctx context.Context, l *Link) (lock.Locker, error) {
	switch {
	case s.Strategy == LockedRedis:
		return redislock.New(l.redis, &redislock.Options{Prefix: s.RedisPrefix})
	case s.Strategy == LockedSQL:
		return sqllock.New(ctx, l.DB.DB, s.Lock, nil)
	case s.Memory != nil:
		return s.Memory, nil
	}
	return memlock.New(), nil
}

// fixed is a Partitioner with any number of partitions of its own.
type fixed partition.Assignment

func (f fixed) Assignment(context.Context) (partition.Assignment, error) {
	return partition.Assignment(f), nil
}

// partitions is what worker i of n owns where keys are divided.
const partitions = 8

// Everything is all partitions: their workers meet at every row.
func Everything() partition.Assignment { return Share(0, 1) }

// Share is the part of worker i of n.
func Share(i, n int) partition.Assignment {
	a := partition.Assignment{Count: partitions}
	for k := i; k < partitions; k += n {
		a.Mine = append(a.Mine, k)
	}
	return a
}

// Spec says how a worker reaches the table. It owns all partitions.
func (tb *Table) Spec(params ...string) Spec {
	p := tb.Place
	at := *p.At
	s := Spec{
		Strategy: p.Strategy, Dialect: p.Database.Dialect, Lock: p.Database.LockDialect(), Driver: p.Database.Driver,
		DSN: at.DSNFor(p.Database.Driver, append(params, p.Database.Params...)...), Table: tb.Mapping, Partitions: Everything(), Memory: tb.memory,
	}
	if p.Redis != nil {
		o := p.Redis.Options()
		s.RedisAddr, s.RedisUser, s.RedisPassword, s.RedisDB, s.RedisPrefix = o.Addr, o.Username, o.Password, o.DB, p.Redis.Prefix
	}
	return s
}

// Worker makes a Claimer as a process of its own would, with its own pools. They
// go to another worker of the place after the test.
func (tb *Table) Worker(t testing.TB) Claimer {
	t.Helper()
	s := tb.Spec()
	s.Conns = 2
	l := tb.borrow(t, s)
	c, err := s.Claimer(t.Context(), l)
	require.NoError(t, err)
	return c
}

// Open makes a Claimer of this Spec, with pools that are closed after the test.
func (s Spec) Open(t testing.TB) (Claimer, *Link) {
	t.Helper()
	l, err := s.Dial()
	require.NoError(t, err)
	t.Cleanup(l.Close)
	c, err := s.Claimer(t.Context(), l)
	require.NoError(t, err)
	return c, l
}

// borrow takes pools that nobody uses now: new connections are what costs most.
func (p *Place) borrow(t testing.TB, s Spec) *Link {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var l *Link
	if n := len(p.free); n > 0 {
		l, p.free = p.free[n-1], p.free[:n-1]
	} else {
		var err error
		l, err = s.Dial()
		require.NoError(t, err)
		p.all = append(p.all, l)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, l)
	})
	return l
}

func (p *Place) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.all {
		l.Close()
	}
}
