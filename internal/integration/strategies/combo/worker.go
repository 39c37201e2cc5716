package combo

import (
	"context"
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

// Open makes the Claimer on a pool of its own, and says how to close that.
func (s Spec) Open(ctx context.Context) (c Claimer, db *sqlx.DB, closeAll func(), err error) {
	if db, err = sqlx.Open(s.Driver, s.DSN); err != nil {
		return nil, nil, nil, err
	}
	db.SetMaxOpenConns(s.Conns)
	db.SetMaxIdleConns(max(s.Conns, 2))
	closeAll = func() { _ = db.Close() }
	if s.Strategy == LockedRedis {
		client := redis.NewClient(&redis.Options{Addr: s.RedisAddr, Username: s.RedisUser, Password: s.RedisPassword, DB: s.RedisDB})
		closeAll = func() { _, _ = client.Close(), db.Close() }
		var l lock.Locker
		if l, err = redislock.New(client, &redislock.Options{Prefix: s.RedisPrefix}); err == nil {
			c, err = claim.NewLocked[Mail](ctx, db, s.Dialect, s.Table, l, nil)
		}
	} else {
		c, err = s.claimer(ctx, db)
	}
	if err != nil {
		closeAll()
		return nil, nil, nil, err
	}
	return c, db, closeAll, nil
}

func (s Spec) claimer(ctx context.Context, db *sqlx.DB) (Claimer, error) {
	switch s.Strategy {
	case Atomic:
		return claim.NewAtomic[Mail](ctx, db, s.Dialect, s.Table, nil)
	case SkipLocked:
		return claim.NewSkipLocked[Mail](ctx, db, s.Dialect, s.Table, nil)
	case LockedMem:
		m := s.Memory
		if m == nil {
			m = memlock.New()
		}
		return claim.NewLocked[Mail](ctx, db, s.Dialect, s.Table, m, nil)
	case LockedSQL:
		l, err := sqllock.New(ctx, db.DB, s.Lock, nil)
		if err != nil {
			return nil, err
		}
		return claim.NewLocked[Mail](ctx, db, s.Dialect, s.Table, l, nil)
	case Partitioned:
		return claim.NewPartitioned[Mail](ctx, db, s.Dialect, s.Table, fixed(s.Partitions), nil)
	}
	return nil, fmt.Errorf("combo: no strategy %q", s.Strategy)
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
		Strategy: p.Strategy, Dialect: p.Database.Dialect, Lock: p.Database.lockDialect(), Driver: p.Database.Driver,
		DSN: at.DSNFor(p.Database.Driver, append(params, p.Database.Params...)...), Table: tb.Mapping, Partitions: Everything(), Memory: tb.memory,
	}
	if p.Redis != nil {
		o := p.Redis.Options()
		s.RedisAddr, s.RedisUser, s.RedisPassword, s.RedisDB, s.RedisPrefix = o.Addr, o.Username, o.Password, o.DB, p.Redis.Prefix
	}
	return s
}

// Worker makes a Claimer as a process of its own would, with its own pool, which
// is closed after the test.
func (tb *Table) Worker(t testing.TB, params ...string) Claimer {
	t.Helper()
	s := tb.Spec(params...)
	s.Conns = 4
	c, _, closeAll, err := s.Open(t.Context())
	require.NoError(t, err)
	t.Cleanup(closeAll)
	return c
}
