package unique_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/sender/unique"
)

// with returns a Sender on the scene's keys and table.
func (s *scene) with(o unique.Options[string], inner sendonce.Sender[string]) *unique.Sender[string] {
	s.Helper()
	if o.Alive == nil {
		o.Alive = s.rows.Alive
	}
	u, err := unique.New(inner, s.keys, options(o))
	require.NoError(s, err)
	return u
}

func (s *scene) taken(err error, row sendonce.Key) *unique.TakenError {
	s.Helper()
	require.ErrorIs(s, err, unique.ErrTaken)
	var taken *unique.TakenError
	require.ErrorAs(s, err, &taken)
	require.Equal(s, row, taken.Row)
	return taken
}

func TestReserveNamesTheRowInTheWay(t *testing.T) {
	inBubble(t, func(s *scene) {
		u := s.with(unique.Options[string]{For: 24 * time.Hour}, send(ok))
		s.add("ann")
		start := time.Now()
		require.NoError(s, u.Reserve(s.Context(), "ann", 1))
		time.Sleep(time.Hour)
		require.NoError(s, u.Reserve(s.Context(), "bob", 2), "another key")
		require.NoError(s, u.Reserve(s.Context(), "", 2), "no key")
		e := s.taken(u.Reserve(s.Context(), "ann", 2), int64(1))
		assert.Equal(s, unique.Reserved, e.How)
		assert.WithinDuration(s, start, e.Since, time.Second)
		assert.WithinDuration(s, start.Add(24*time.Hour), e.Until, time.Second)
		assert.Regexp(s, `unique key "ann" is taken by row 1, reserved, since \S+Z and until \S+Z`, e.Error())
		require.NoError(s, u.Release(s.Context(), "ann", 2), "not its own")
		s.taken(u.Reserve(s.Context(), "ann", 2), int64(1))
		require.NoError(s, u.Release(s.Context(), "ann", 1))
		require.NoError(s, u.Reserve(s.Context(), "ann", 2))
	})
}

// A reservation ends with its row, whatever became of it.
func TestReservationDoesNotOutliveItsRow(t *testing.T) {
	for name, end := range map[string]func(s *scene){
		"deleted":   func(s *scene) { s.rows.Delete(1) },
		"dead":      func(s *scene) { s.rows.SetStatus(1, memclaim.Dead) },
		"skipped":   func(s *scene) { s.rows.SetStatus(1, memclaim.Skipped) },
		"unknown":   func(s *scene) { s.rows.SetStatus(1, memclaim.Unknown) },
		"cancelled": func(s *scene) { s.rows.SetStatus(1, "cancelled") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scene) {
				u := s.with(unique.Options[string]{For: 24 * time.Hour}, send(ok))
				s.add("ann")
				require.NoError(s, u.Reserve(s.Context(), "ann", 1))
				end(s)
				s.taken(u.Reserve(s.Context(), "ann", 2), int64(1)) // its transaction may not be committed
				time.Sleep(30 * time.Second)
				require.NoError(s, u.Reserve(s.Context(), "ann", 2))
			})
		})
	}
}

// A send takes over what a row that is gone has reserved, and no other.
func TestSendTakesOverFromRowsThatAreGone(t *testing.T) {
	inBubble(t, func(s *scene) {
		u := s.with(unique.Options[string]{Grace: time.Second}, send(ok))
		s.add("ann", "ann")
		require.NoError(s, u.Reserve(s.Context(), "ann", 1))
		time.Sleep(time.Second)
		second := item{Key: int64(2), Value: "ann", IdempotencyKey: "2"}
		require.ErrorContains(s, u.Send(s.Context(), []item{second}), "by row 1, reserved")
		s.rows.SetStatus(1, memclaim.Dead)
		require.NoError(s, u.Send(s.Context(), []item{second}))
		s.taken(u.Reserve(s.Context(), "ann", 3), int64(2))
	})
}

func TestScopeSaysWhenAReservationEnds(t *testing.T) {
	type free struct{ sending, failed, done, later bool }
	for scope, want := range map[unique.Scope]free{
		unique.UntilBegin: {true, true, true, true},
		unique.UntilDone:  {false, false, true, true},
		unique.Window:     {false, false, false, true},
	} {
		t.Run(fmt.Sprint(scope), func(t *testing.T) {
			inBubble(t, func(s *scene) {
				var got free
				isFree := func() bool {
					st, err := s.keys.Look(s.Context(), "ann")
					require.NoError(s, err)
					return st == nil
				}
				fail := true
				u := s.with(unique.Options[string]{Scope: scope}, send(func(context.Context, item) error {
					got.sending = isFree()
					if fail {
						return errors.New("not yet")
					}
					return nil
				}))
				s.add("ann")
				require.NoError(s, u.Reserve(s.Context(), "ann", 1))
				require.False(s, isFree())
				m := []item{{Key: int64(1), Value: "ann", IdempotencyKey: "1"}, {Key: int64(2)}}
				require.Error(s, u.Send(s.Context(), m[:1]))
				got.failed = isFree()
				fail = false
				_ = u.Send(s.Context(), m)
				got.done = isFree()
				time.Sleep(time.Hour)
				got.later = isFree()
				assert.Equal(s, want, got)
			})
		})
	}
}

func TestReserveNeedsToKnowRows(t *testing.T) {
	u, err := unique.New(send(ok), unique.NewMemory(), unique.Options[string]{Key: byValue, Scope: unique.UntilDone})
	require.NoError(t, err)
	require.ErrorContains(t, u.Reserve(t.Context(), "ann", 1), "Alive")
	o := unique.Options[string]{Key: byValue, Scope: unique.UntilDone, Alive: memclaim.New[string](nil).Alive}
	u, err = unique.New(send(ok), unique.NewMemory(), o)
	require.NoError(t, err)
	require.ErrorContains(t, u.Reserve(t.Context(), "ann", 1), "For")
}

// Keys of every type are asked about as they were given, and rows of another table
// not at all.
func TestRowsAreNamedAndFound(t *testing.T) {
	inBubble(t, func(s *scene) {
		var asked []sendonce.Key
		alive := func(_ context.Context, key sendonce.Key) (bool, error) {
			asked = append(asked, key)
			return true, nil
		}
		for _, table := range []string{"", "app.mails", `my "mails"`} {
			u := s.with(unique.Options[string]{Table: table, Alive: alive}, send(ok))
			long := strings.Repeat("x", 300)
			for i, key := range []sendonce.Key{int64(-7), uint64(math.MaxUint64), "a b", "7", "é\x00\xff", "", long} {
				name := fmt.Sprint("key ", table, i)
				require.NoError(s, u.Reserve(s.Context(), name, key))
				time.Sleep(time.Minute)
				asked = nil
				err := u.Reserve(s.Context(), name, 99)
				if key == long {
					s.taken(err, nil)
					assert.Empty(s, asked)
					continue
				}
				e := s.taken(err, key)
				assert.Equal(s, []sendonce.Key{key}, asked)
				assert.LessOrEqual(s, len(e.Name), 255)
			}
		}
		other := s.with(unique.Options[string]{Table: "others", Alive: alive}, send(ok))
		asked = nil
		e := s.taken(other.Reserve(s.Context(), "key app.mails0", -7), nil)
		assert.Equal(s, `"app.mails":-7`, e.Name)
		assert.Empty(s, asked)
	})
}

func TestWhetherARowIsAliveIsNotKnown(t *testing.T) {
	inBubble(t, func(s *scene) {
		down := errors.New("the database is down")
		u := s.with(unique.Options[string]{Alive: func(context.Context, sendonce.Key) (bool, error) { return false, down }}, send(ok))
		require.NoError(s, u.Reserve(s.Context(), "ann", 1))
		time.Sleep(time.Minute)
		require.ErrorIs(s, u.Reserve(s.Context(), "ann", 2), down)
		require.ErrorIs(s, u.Send(s.Context(), []item{{Key: int64(2), Value: "ann"}}), down)
	})
}

// A row in doubt is asked about under its key first, and then the inner Sender.
func TestReconcile(t *testing.T) {
	inBubble(t, func(s *scene) {
		var asked []string
		inner := sendonce.WithReconcile(send(ok), func(_ context.Context, m item) error {
			asked = append(asked, m.Value)
			switch m.Value {
			case "bob":
				return nil
			case "cid":
				return sendonce.NotSent(errors.New("it was not"))
			}
			return errors.New("not known")
		})
		u := s.with(unique.Options[string]{}, inner)
		var items []item
		for i, v := range []string{"ann", "bob", "cid", "dan", ""} {
			items = append(items, item{Key: int64(i), Value: v, IdempotencyKey: fmt.Sprint(i), InDoubt: true})
		}
		require.NoError(s, u.Send(s.Context(), items[:1]))
		var each sendonce.ItemErrors
		require.ErrorAs(s, u.Reconcile(s.Context(), items), &each)
		assert.Equal(s, []string{"bob", "cid", "dan", ""}, asked)
		require.NoError(s, each[0], "its mark is there")
		require.NoError(s, each[1])
		require.ErrorContains(s, each[2], "it was not")
		require.ErrorContains(s, each[3], "not known")
		st, err := u.Look(s.Context(), "bob")
		require.NoError(s, err)
		assert.Equal(s, unique.Marked, st.How, "what the provider accepted is marked")

		alone := s.with(unique.Options[string]{}, send(ok))
		require.ErrorAs(s, alone.Reconcile(s.Context(), items), &each)
		require.NoError(s, each[0])
		require.NoError(s, each[1])
		require.Error(s, each[2])
		require.Error(s, each[4])
	})
}

// Within a transaction that has the pool's only connection nobody can say whether a
// row is alive: the answer is an error that names the cure, and soon.
func TestReserveInDoesNotWaitForItsOwnConnection(t *testing.T) {
	inBubble(t, func(s *scene) {
		u := s.with(unique.Options[string]{Alive: func(ctx context.Context, _ sendonce.Key) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		}}, send(ok))
		require.NoError(s, u.Reserve(s.Context(), "ann", 1))
		time.Sleep(time.Hour - time.Minute)
		start := time.Now()
		err := u.ReserveIn(s.Context(), s.keys, "ann", 2)
		require.ErrorContains(s, err, "SetMaxOpenConns")
		require.ErrorIs(s, err, context.DeadlineExceeded)
		assert.Equal(s, 2*time.Second, time.Since(start))
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		err = u.ReserveIn(ctx, s.keys, "ann", 2)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		assert.NotContains(s, err.Error(), "SetMaxOpenConns", "it was the caller's own patience")
	})
}

// The store keeps an integer as a text, and not its type.
func TestReservationOfAnUnsignedKey(t *testing.T) {
	inBubble(t, func(s *scene) {
		u := s.with(unique.Options[string]{}, send(ok))
		for row, want := range map[uint64]sendonce.Key{1: int64(1), math.MaxUint64: uint64(math.MaxUint64)} {
			key := fmt.Sprint("key ", row)
			require.NoError(s, u.Reserve(s.Context(), key, row))
			require.NoError(s, s.rows.Add(memclaim.Row[string]{Key: row, Value: key}))
			time.Sleep(time.Minute)
			s.taken(u.Reserve(s.Context(), key, uint64(2)), want)
		}
	})
}
