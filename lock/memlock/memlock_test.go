package memlock_test

import (
	"testing"

	"github.com/sendonce/sendonce/lock"
	"github.com/sendonce/sendonce/lock/locktest"
	"github.com/sendonce/sendonce/lock/memlock"
)

func TestConformance(t *testing.T) {
	locktest.Run(t, locktest.Harness{
		Synctest: true,
		Caps:     locktest.Caps{Fenced: true},
		Open: func(testing.TB) locktest.Store {
			l := memlock.New()
			return locktest.Store{New: func() lock.Locker { return l }, Forget: l.Forget}
		},
	})
}
