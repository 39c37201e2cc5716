// Package rediswake tells a Dispatcher of new rows at once, by a message through
// Redis, so that it needn't poll often. Whoever inserts rows calls Publish after
// the commit:
//
//	err = tx.Commit()
//	...
//	err = rediswake.Publish(ctx, rdb, "receivers")
//
// and each process listens:
//
//	l, err := rediswake.Listen(ctx, rdb, "receivers", nil)
//	...
//	defer l.Close()
//	d, err := sendonce.New(rows, sender, sendonce.Config{Wake: l.C, PollInterval: time.Minute})
//
// A message is a hint and no more: Redis keeps none for those who are not there.
// Polling goes on, and finds what no message tells of. It works with any store
// of rows, with Redis alone, with Sentinel and with a cluster.
package rediswake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options tune Listen. The zero value works, and so does nil.
type Options struct {
	// CheckInterval is how often the connection is looked at while nothing
	// comes over it. Default: 30 s.
	CheckInterval time.Duration

	// Logger is told when the connection is lost, and when it is back.
	// Default: slog.Default().
	Logger *slog.Logger
}

const (
	answerWithin = 10 * time.Second
	backoffFirst = 100 * time.Millisecond
	backoffMost  = 10 * time.Second
)

var errSilent = errors.New("no answer to a PING")

// Publish wakes all who listen on the channel now. Its error may be ignored: rows
// are then found by polling.
func Publish(ctx context.Context, rdb redis.UniversalClient, channel string) error {
	if err := rdb.Publish(ctx, channel, "").Err(); err != nil {
		return fmt.Errorf("sendonce: publish on %q: %w", channel, err)
	}
	return nil
}

// Listener is a connection that listens. It has one goroutine, which ends with
// the context that Listen was given, or by Close.
type Listener struct {
	// C receives something when there may be new rows: after messages, any number
	// of which may be one, and after each new connection, because those in between
	// were missed. It is never closed.
	C <-chan struct{}

	wake    chan struct{}
	rdb     redis.UniversalClient
	channel string
	o       Options
	cancel  context.CancelFunc
	done    chan struct{}
}

// Listen listens on the channel, over a connection of its own that it makes by
// this client, and makes a new one whenever that is lost. The client stays the
// caller's to close, after the Listener. It returns an error if the first
// connection can't be made. Options may be nil.
func Listen(ctx context.Context, rdb redis.UniversalClient, channel string, o *Options) (*Listener, error) {
	if rdb == nil {
		return nil, errors.New("sendonce: the Redis client is nil")
	}
	if channel == "" {
		return nil, errors.New("sendonce: the channel's name is empty")
	}
	l := &Listener{wake: make(chan struct{}, 1), rdb: rdb, channel: channel, done: make(chan struct{})}
	l.C = l.wake
	if o != nil {
		l.o = *o
	}
	if l.o.CheckInterval <= 0 {
		l.o.CheckInterval = 30 * time.Second
	}
	if l.o.Logger == nil {
		l.o.Logger = slog.Default()
	}
	s, err := l.subscribe(ctx)
	if err != nil {
		return nil, err
	}
	ctx, l.cancel = context.WithCancel(ctx)
	go l.run(ctx, s)
	return l, nil
}

// Close ends the connection and returns when nothing of the Listener is left. If
// it is just making a new one, that may take the client's DialTimeout or
// ReadTimeout, unless its ContextTimeoutEnabled is set.
func (l *Listener) Close() {
	l.cancel()
	<-l.done
}

// subscribe makes a connection that listens.
func (l *Listener) subscribe(ctx context.Context) (*redis.PubSub, error) {
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	s := l.rdb.Subscribe(within)
	stop := context.AfterFunc(within, func() { _ = s.Close() }) // it may wait for longer than its context
	defer stop()
	err := s.Subscribe(within, l.channel)
	if err == nil {
		_, err = s.ReceiveTimeout(within, answerWithin)
	}
	if err != nil {
		_ = s.Close()
		if within.Err() != nil {
			err = context.Cause(within)
		}
		return nil, fmt.Errorf("sendonce: listen on %q: %w", l.channel, err)
	}
	return s, nil
}

// run keeps a connection that listens, until ctx ends.
func (l *Listener) run(ctx context.Context, s *redis.PubSub) {
	defer close(l.done)
	for s != nil {
		stop := context.AfterFunc(ctx, func() { _ = s.Close() })
		err := l.listen(ctx, s)
		stop()
		_ = s.Close()
		if ctx.Err() != nil {
			return
		}
		l.o.Logger.Warn("sendonce: the connection that listens for new rows is lost; they are found by polling", "channel", l.channel, "err", err)
		s = l.again(ctx)
	}
}

// again makes a new connection: nil if ctx ends first.
func (l *Listener) again(ctx context.Context) *redis.PubSub {
	for pause := backoffFirst; ; pause = min(2*pause, backoffMost) {
		t := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		if s, err := l.subscribe(ctx); err == nil {
			l.o.Logger.Info("sendonce: new rows are listened for again", "channel", l.channel)
			l.hint() // what came meanwhile was missed
			return s
		}
	}
}

// hint wakes. It never waits: one hint is as good as many.
func (l *Listener) hint() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// listen waits for messages until the connection is lost or ctx ends.
func (l *Listener) listen(ctx context.Context, s *redis.PubSub) error {
	asked := false
	for {
		got, err := s.ReceiveTimeout(ctx, l.o.CheckInterval)
		var late net.Error
		switch {
		case err == nil:
			asked = false
			if _, pong := got.(*redis.Pong); !pong {
				l.hint() // a message; or the client has made a new connection by itself
			}
		case ctx.Err() == nil && errors.As(err, &late) && late.Timeout() && !asked:
			// A line that is cut without a word would be quiet for ever.
			asked = true
			if err := s.Ping(ctx); err != nil {
				return err
			}
		case asked:
			return errSilent
		default:
			return err
		}
	}
}
