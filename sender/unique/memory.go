package unique

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sendonce/sendonce/lock"
)

// Memory is a Store in the memory of one process: for tests, and for programs of
// one process that may forget. It takes time from time.Now, so that tests can run
// in virtual time (testing/synctest).
type Memory struct {
	mu      sync.Mutex
	entries map[string]*Entry
	sweep   int // entries that there may be before those that are over are deleted
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{entries: map[string]*Entry{}, sweep: 1000} }

// act changes one entry, and forgets it if its key is free afterwards.
func (m *Memory) act(ctx context.Context, key string, f func(e *Entry, now int64) *Standing) (*Standing, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if key == "" {
		return nil, errors.New("sendonce: the unique key is empty")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().UnixMicro()
	e := m.entries[key]
	if e == nil {
		e = &Entry{}
	}
	s := f(e, now)
	if e.Expires() == 0 {
		delete(m.entries, key)
		return s, nil
	}
	m.entries[key] = e
	if len(m.entries) > m.sweep {
		for key, e := range m.entries {
			if e.Expires() <= now {
				delete(m.entries, key)
			}
		}
		m.sweep = max(1000, 2*len(m.entries))
	}
	return s, nil
}

// Reserve implements Store.
func (m *Memory) Reserve(ctx context.Context, key string, o Owner, d time.Duration, over string) (*Standing, error) {
	return m.act(ctx, key, func(e *Entry, now int64) *Standing { return e.Reserve(now, o, d, over) })
}

// Hold implements Store.
func (m *Memory) Hold(ctx context.Context, key string, o Owner, ttl time.Duration, over string) (*Standing, error) {
	return m.act(ctx, key, func(e *Entry, now int64) *Standing { return e.Hold(now, o, ttl, over) })
}

// Extend implements Store.
func (m *Memory) Extend(ctx context.Context, key, token string, ttl time.Duration) error {
	kept := false
	_, err := m.act(ctx, key, func(e *Entry, now int64) *Standing {
		kept = e.Extend(now, token, ttl)
		return nil
	})
	if err == nil && !kept {
		err = &lock.LostError{Key: key, Reason: lock.Expired}
	}
	return err
}

// Mark implements Store.
func (m *Memory) Mark(ctx context.Context, key string, o Owner, d time.Duration) (*Standing, error) {
	return m.act(ctx, key, func(e *Entry, now int64) *Standing { return e.Mark(now, o, d) })
}

// Free implements Store.
func (m *Memory) Free(ctx context.Context, key, token string, all bool) error {
	_, err := m.act(ctx, key, func(e *Entry, _ int64) *Standing {
		e.Free(token, all)
		return nil
	})
	return err
}

// Release implements Store.
func (m *Memory) Release(ctx context.Context, key, row string) error {
	_, err := m.act(ctx, key, func(e *Entry, _ int64) *Standing {
		e.Release(row)
		return nil
	})
	return err
}

// Look implements Store.
func (m *Memory) Look(ctx context.Context, key string) (*Standing, error) {
	return m.act(ctx, key, func(e *Entry, now int64) *Standing { return e.Look(now) })
}
