package memclaim_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/claimtest"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// harness shows what the harness of a store looks like.
func harness(o memclaim.Options) claimtest.Harness[string] {
	return claimtest.Harness[string]{
		New: func(t testing.TB, rows, handles int) *claimtest.Store[string] {
			c := memclaim.New[string](&o)
			s := &claimtest.Store[string]{Claimers: []sendonce.Claimer[string]{c}}
			for len(s.Claimers) < handles {
				s.Claimers = append(s.Claimers, c.Process())
			}
			for i := range rows {
				key := int64(1000 + i)
				if err := c.Add(memclaim.Row[string]{Key: key, Value: fmt.Sprint("value ", key)}); err != nil {
					t.Fatal(err)
				}
				s.Keys = append(s.Keys, key)
			}
			hooks(s, c)
			return s
		},
		Caps:     claimtest.Caps{DeletesDone: o.ForgetDone},
		Parallel: 8,
	}
}

func hooks(s *claimtest.Store[string], c *memclaim.Claimer[string]) {
	found := func(ok bool) error {
		if !ok {
			return errors.New("no such row")
		}
		return nil
	}
	s.Row = func(key sendonce.Key) (claimtest.Row, error) {
		r, ok := c.Row(key)
		return claimtest.Row{Found: ok, Status: r.Status, Attempts: r.Attempts, Reason: r.Reason}, nil
	}
	s.Check = func(item sendonce.Item[string]) error {
		if item.Value != fmt.Sprint("value ", item.Key) {
			return fmt.Errorf("its value is %q", item.Value)
		}
		return nil
	}
	s.SetStatus = func(key sendonce.Key, status string) error { return found(c.SetStatus(key, status)) }
	s.Delete = func(key sendonce.Key) error { return found(c.Delete(key)) }
	s.Schedule = func(key sendonce.Key, after time.Duration) error {
		return found(c.Schedule(key, time.Now().Add(after)))
	}
	s.InsertBefore = func() (sendonce.Key, error) { return int64(1), c.Add(memclaim.Row[string]{Key: 1}) }
	s.Spoil = func(key sendonce.Key) error {
		r, _ := c.Row(key)
		r.Err = errors.New("unreadable")
		return errors.Join(found(c.Delete(key)), c.Add(r))
	}
	s.Requeue = func(key sendonce.Key) error { return found(c.Requeue(key) == 1) }
}

func TestConformance(t *testing.T) {
	t.Run("Virtual", func(t *testing.T) {
		h := harness(memclaim.Options{})
		h.Virtual, h.Lease = true, 30*time.Second
		claimtest.Run(t, h)
	})
	t.Run("ForgetDone", func(t *testing.T) {
		h := harness(memclaim.Options{ForgetDone: true})
		h.Virtual = true
		claimtest.Run(t, h)
	})
	// Real time is how all other stores run it.
	t.Run("Real", func(t *testing.T) { claimtest.Run(t, harness(memclaim.Options{})) })
}

func BenchmarkClaimer(b *testing.B) {
	for _, batch := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) { claimtest.Bench(b, harness(memclaim.Options{}), batch) })
	}
}
