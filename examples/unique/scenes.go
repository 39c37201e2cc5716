package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/examples/internal/demo"
	"github.com/sendonce/sendonce/sender/unique"
)

// scene is a word of Laravel's.
type scene struct {
	word, there, here string // what Laravel does, and what sendonce does

	play    func(ctx context.Context, s *stage) error
	promise string // what it says, line by line
}

var scenes = []scene{
	{
		"ShouldBeUnique",
		`a job is dropped without a word while another one with its uniqueId waits or is at work. The lock
ends when that one is done or has failed for good; if it never comes to that (the queue was
cleared, say), after uniqueFor, or never`,
		`Reserve refuses the INSERT and names the row that is in the way. The reservation ends when that
row is done, dead, skipped or gone; For is only its longest time`,
		shouldBeUnique,
		`row 1 is in the table
row 2 is refused: row 1 is in the way (reserved)
row 3 is refused: row 1 is in the way (being sent)
row 1 fails, and waits for its retry
row 4 is refused: row 1 is in the way (reserved)
row 1 was sent, at attempt 2
row 5 is in the table
the application deletes row 5
row 6 is in the table
row 6 was sent, at attempt 1`,
	},
	{
		"ShouldBeUniqueUntilProcessing",
		"the same, and the lock ends just before the job is processed",
		"the same with Scope: UntilBegin. As there, nothing keeps the two from running side by side then",
		untilProcessing,
		`row 11 is in the table
row 12 is refused: row 11 is in the way (reserved)
row 11 is sent
row 13 is in the table
row 13 is sent
row 11 was sent, at attempt 1
row 13 was sent, at attempt 1`,
	},
	{
		"WithoutOverlapping, releaseAfter",
		"a job whose key is busy goes back to the queue, and that counts as one of its tries",
		"Conflict: Wait, and it is not charged. Neither there nor here do they wait in order",
		waits,
		`3 rows with one key were sent, at most 1 at a time
row 21 was sent, at attempt 1
row 22 was sent, at attempt 1
row 23 was sent, at attempt 1`,
	},
	{
		"WithoutOverlapping, dontRelease",
		"a job whose key is busy is deleted",
		`Conflict: Skip. The row stays, skipped, and says which one was in its way, also if that one then
fails; SkipSent skips it only if the other one was really sent`,
		skips,
		`row 31 was sent, at attempt 1
row 32 was not sent: unique key "dan@example.org" is taken by row 31, being sent`,
	},
	{
		"WithoutOverlapping, expireAfter",
		`the lock of a worker that was killed stays for good, or for expireAfter; a job that takes longer
than that loses its lock while it works`,
		`no such time: the key has a Lease that is renewed while the row is sent, and is over soon after
its worker. Nobody knows whether row 41 was sent, so it is sent again`,
		holderGone,
		`a worker was killed while it sent row 41
row 42 was sent, at attempt 1
row 41 was sent, at attempt 2`,
	},
	{
		"(nothing)",
		"no middleware keeps an order",
		`claim.NewSerial: one row at a time, in the table's order, also over retries. An order for each
key: package redisclaim, and memclaim.Executor in one process`,
		inOrder,
		`row 51 is tried
row 51 is sent
row 52 is sent
row 53 is sent
at most 1 at a time`,
	},
}

func shouldBeUnique(ctx context.Context, s *stage) error {
	const ann = "ann@example.org"
	var once *unique.Sender[demo.Mail]
	send := func(ctx context.Context, m sendonce.Item[demo.Mail]) error {
		if m.Key != int64(1) || m.Attempt > 1 {
			return nil
		}
		err := s.dispatch(ctx, once, 3, ann)
		s.say("row 1 fails, and waits for its retry")
		return errors.Join(errors.New("the provider is busy"), err)
	}
	once, err := s.sender(unique.Options[demo.Mail]{Scope: unique.UntilDone, For: time.Hour}, send)
	if err != nil {
		return err
	}
	if err := errors.Join(s.dispatch(ctx, once, 1, ann), s.dispatch(ctx, once, 2, ann)); err != nil {
		return err
	}
	if err := s.tryOnce(ctx, once); err != nil {
		return err
	}
	if err := errors.Join(s.dispatch(ctx, once, 4, ann), s.drain(ctx, 3, s.rows, once), s.fate(ctx, 1)); err != nil {
		return err
	}
	if err := s.dispatch(ctx, once, 5, ann); err != nil {
		return err
	}
	s.say("the application deletes row 5")
	if _, err := s.db.ExecContext(ctx, "DELETE FROM sendonce_demo WHERE id = 5"); err != nil {
		return err
	}
	time.Sleep(s.grace + 10*time.Millisecond)
	return errors.Join(s.dispatch(ctx, once, 6, ann), s.drain(ctx, 3, s.rows, once), s.fate(ctx, 6))
}

// tryOnce sends until the first answer is recorded.
func (s *stage) tryOnce(ctx context.Context, once sendonce.Sender[demo.Mail]) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := config
	c.Backoff = func(int) time.Duration { return 500 * time.Millisecond }
	c.Hooks.Settled = func(int, time.Duration, error) { stop() }
	d, err := sendonce.New[demo.Mail](s.rows, once, c)
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

func untilProcessing(ctx context.Context, s *stage) error {
	const bob = "bob@example.org"
	var once *unique.Sender[demo.Mail]
	send := func(ctx context.Context, m sendonce.Item[demo.Mail]) error {
		s.say("row %d is sent", m.Key)
		if m.Key == int64(11) {
			return s.dispatch(ctx, once, 13, bob)
		}
		return nil
	}
	once, err := s.sender(unique.Options[demo.Mail]{Scope: unique.UntilBegin, For: time.Hour}, send)
	if err != nil {
		return err
	}
	return errors.Join(s.dispatch(ctx, once, 11, bob), s.dispatch(ctx, once, 12, bob), s.drain(ctx, 1, s.rows, once), s.fate(ctx, 11), s.fate(ctx, 13))
}

var withoutOverlapping = unique.Options[demo.Mail]{
	Scope: unique.UntilDone, Conflict: unique.Wait, WaitFor: 50 * time.Millisecond, Lease: time.Second,
}

// crowd counts who is at work.
type crowd struct{ total, now, most atomic.Int64 }

func (c *crowd) send(context.Context, sendonce.Item[demo.Mail]) error {
	defer c.now.Add(-1)
	if n := c.now.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	time.Sleep(30 * time.Millisecond)
	c.total.Add(1)
	return nil
}

func waits(ctx context.Context, s *stage) error {
	var c crowd
	apart, err := s.sender(withoutOverlapping, c.send)
	if err != nil {
		return err
	}
	if err := errors.Join(s.insert(ctx, []int64{21, 22, 23}, "cal@example.org"), s.drain(ctx, 3, s.rows, apart)); err != nil {
		return err
	}
	s.say("%d rows with one key were sent, at most %d at a time", c.total.Load(), c.most.Load())
	return errors.Join(s.fate(ctx, 21), s.fate(ctx, 22), s.fate(ctx, 23))
}

func skips(ctx context.Context, s *stage) error {
	begun, done := make(chan struct{}), make(chan struct{})
	o := withoutOverlapping
	o.Conflict = unique.Skip
	apart, err := s.sender(o, func(ctx context.Context, m sendonce.Item[demo.Mail]) error {
		close(begun)
		select {
		case <-done:
		case <-ctx.Done():
		}
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	if err := s.insert(ctx, []int64{31}, "dan@example.org"); err != nil {
		return err
	}
	c := config
	c.Hooks.Sent = func(_ sendonce.Key, o sendonce.Outcome, _ int, _ time.Duration, _ error) {
		if o == sendonce.Skipped {
			close(done) // row 31 may end: row 32 has
		}
	}
	d, err := sendonce.New[demo.Mail](s.rows, apart, c)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := d.Drain(ctx)
		ended <- err
	}()
	select {
	case <-begun:
	case err := <-ended:
		return fmt.Errorf("row 31 was not begun: %w", err)
	}
	if err := errors.Join(s.insert(ctx, []int64{32}, "dan@example.org"), <-ended); err != nil {
		return err
	}
	return errors.Join(s.fate(ctx, 31), s.fate(ctx, 32))
}

func holderGone(ctx context.Context, s *stage) error {
	if err := errors.Join(s.insert(ctx, []int64{41}, "eve@example.org"), s.killWorker()); err != nil {
		return err
	}
	s.say("a worker was killed while it sent row 41")
	apart, err := s.sender(withoutOverlapping, func(context.Context, sendonce.Item[demo.Mail]) error { return nil })
	if err != nil {
		return err
	}
	if err := s.insert(ctx, []int64{42}, "eve@example.org"); err != nil {
		return err
	}
	// Row 41 comes back when its claim's own lease is over, which is longer.
	if err := s.drain(ctx, 3, s.rows, apart); err != nil {
		return err
	}
	return errors.Join(s.fate(ctx, 42), s.fate(ctx, 41))
}

func inOrder(ctx context.Context, s *stage) error {
	serial, err := claim.NewSerial[demo.Mail](ctx, s.db, s.dialect, demo.Table, nil)
	if err != nil {
		return err
	}
	if err := s.insert(ctx, []int64{53, 52, 51}, "all@example.org"); err != nil {
		return err
	}
	var c crowd
	send := sendonce.SenderFunc[demo.Mail](func(ctx context.Context, m sendonce.Item[demo.Mail]) error {
		err := c.send(ctx, m)
		if m.Key == int64(51) && m.Attempt == 1 {
			s.say("row 51 is tried")
			return errors.New("the provider is busy")
		}
		s.say("row %d is sent", m.Key)
		return err
	})
	if err := s.drain(ctx, 3, serial, send); err != nil {
		return err
	}
	s.say("at most %d at a time", c.most.Load())
	return nil
}
