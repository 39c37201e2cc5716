package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/sendonce/sendonce/claim/redisclaim"
	"github.com/sendonce/sendonce/examples/internal/cli"
)

// lead starts two instances, asks them for invoices, waits for these, and judges by
// the ledger.
func lead(ctx context.Context, rdb *redis.Client, o options) (err error) {
	if o.name == "" {
		o.name = strings.ToLower(rand.Text())
		defer func() { err = errors.Join(err, forget(context.WithoutCancel(ctx), rdb, o.name)) }()
	}
	var both []*instance
	for range 2 {
		i, err := start(ctx, o)
		if err != nil {
			return errors.Join(err, stopAll(both))
		}
		both = append(both, i)
	}
	fmt.Printf("2 instances, at %s and %s, share one queue\n", both[0].address, both[1].address)
	b := newBook(rdb, o.name)
	answers, err := ask(ctx, both, b, o)
	if err == nil {
		err = wait(ctx, both, answers)
	}
	if e := stopAll(both); err == nil && e != nil {
		err = cli.Failed(e)
	}
	if err != nil {
		return err
	}
	entries, err := b.ledger(ctx)
	if err != nil {
		return err
	}
	v := judge(entries, answers, both)
	v.print(both)
	return v.failed()
}

func stopAll(all []*instance) error {
	var errs []error
	for _, i := range all {
		errs = append(errs, i.stop())
	}
	return errors.Join(errs...)
}

// forget deletes what a run has left in Redis.
func forget(ctx context.Context, rdb *redis.Client, name string) error {
	q, err := redisclaim.New[request](ctx, rdb, name, &redisclaim.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return rdb.Del(ctx, append(q.Keys(), newBook(rdb, name).keys()...)...).Err()
}

// answer is what a client saw: an invoice that was accepted after it was asked for.
type answer struct {
	customer, id    string
	asked, accepted time.Time
}

// ask sends requests at a constant rate, whatever the answers, to both instances.
func ask(ctx context.Context, both []*instance, b *book, o options) ([]answer, error) {
	proxy := &balancer{both: both}
	attacker := vegeta.NewAttacker(vegeta.Client(&http.Client{Transport: proxy, Timeout: 10 * time.Second}))
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()
	var count atomic.Int64
	target := func(t *vegeta.Target) error {
		i := int(count.Add(1))
		t.Method, t.URL = http.MethodPost, fmt.Sprintf("http://service/customers/c%d/invoices", i%o.customers)
		if i%20 == 0 {
			t.URL += "?fails=once"
		}
		t.Header = http.Header{"Idempotency-Key": {rand.Text()}}
		return nil
	}
	var answers []answer
	var seen vegeta.Metrics
	for r := range attacker.Attack(target, pacer{vegeta.ConstantPacer{Freq: o.rate, Per: time.Second}, uint64(o.n)}, 0, "") {
		seen.Add(r)
		if r.Code == http.StatusAccepted {
			customer, _, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://service/customers/"), "/")
			id := strings.TrimPrefix(r.Headers.Get("Location"), "/invoices/")
			answers = append(answers, answer{customer, id, r.Timestamp, r.End()})
		}
		if o.kill && len(answers) == o.n/2 && !both[0].killed {
			if err := kill(ctx, both[0], b); err != nil {
				return nil, err
			}
		}
	}
	seen.Close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	fmt.Printf("%d requests, %.0f in a second, for %d customers, to both in turn: %d accepted (99 of 100 within %v), %d of them by the other one\n",
		seen.Requests, seen.Rate, o.customers, len(answers), seen.Latencies.P99.Round(time.Millisecond), proxy.again.Load())
	if len(answers) < o.n {
		return nil, cli.Failed(fmt.Errorf("%d of %d requests were not accepted: %s", o.n-len(answers), o.n, strings.Join(seen.Errors, "; ")))
	}
	return answers, nil
}

// pacer stops after n requests.
type pacer struct {
	vegeta.ConstantPacer
	n uint64
}

// Pace implements vegeta.Pacer.
func (p pacer) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	if hits == p.n {
		return 0, true
	}
	return p.ConstantPacer.Pace(elapsed, hits)
}

// balancer is the proxy in front of the instances: it asks them in turn, and the other
// one if one doesn't answer. That is safe because of the Idempotency-Key.
type balancer struct {
	both  []*instance
	turn  atomic.Int64
	again atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	first := int(b.turn.Add(1))
	for i := range b.both {
		try := r.Clone(r.Context())
		try.URL.Host = b.both[(first+i)%len(b.both)].address
		if resp, err = http.DefaultTransport.RoundTrip(try); err == nil {
			b.again.Add(int64(i))
			return resp, nil
		}
	}
	return nil, err
}

// kill kills an instance in the middle of its work.
func kill(ctx context.Context, i *instance, b *book) error {
	defer func() { _ = i.signal(syscall.SIGCONT) }() // or it could not be stopped
	for ctx.Err() == nil {
		// It stands still while we look.
		if err := i.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		entries, err := b.ledger(ctx)
		if err != nil {
			return err
		}
		if open := unfinished(entries, i.address); len(open) > 0 {
			i.killed = true
			fmt.Printf("%s was killed (SIGKILL) while it made %s: these come back when its lease of 5 s is over, and the\n", i.address, strings.Join(open, ", "))
			fmt.Println("other instance has seen it unchanged for two thirds of that. Their customers wait, and the others don't")
			return i.signal(syscall.SIGKILL)
		}
		if err := i.signal(syscall.SIGCONT); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

// wait asks for each invoice where its answer said, until it is there.
func wait(ctx context.Context, both []*instance, answers []answer) error {
	client := &http.Client{Transport: &balancer{both: both}, Timeout: 10 * time.Second}
	for _, a := range answers {
		for done := false; !done; {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://service/invoices/"+a.id, nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(r)
			if err != nil {
				return err
			}
			_ = resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusOK:
				done = true
			case http.StatusAccepted:
				time.Sleep(20 * time.Millisecond)
			default:
				return cli.Failed(errors.New("invoice " + strconv.Quote(a.id) + " was accepted, and then: " + resp.Status))
			}
		}
	}
	return nil
}

// unfinished returns what an instance has begun and not ended.
func unfinished(entries []entry, instance string) (open []string) {
	for _, e := range entries {
		if e.Instance != instance {
			continue
		}
		if open = slices.DeleteFunc(open, func(id string) bool { return id == e.ID }); e.Step == begun {
			open = append(open, e.ID)
		}
	}
	return open
}
