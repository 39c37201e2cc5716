package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// workerVar makes a process of this binary a worker and not a test.
const workerVar = "SENDONCE_TEST_CRASH_WORKER"

// order is what a worker process is told to do.
type order struct {
	Name     string
	Spec     combo.Spec
	Ledger   string
	Provider string
	Delivery sendonce.Delivery
}

const (
	sendTimeout = 300 * time.Millisecond
	lease       = 1500 * time.Millisecond
	concurrency = 8
)

// work is the life of a worker process: it runs until SIGTERM, or ends with its
// parent.
func work(in io.Reader) error {
	var o order
	dec := json.NewDecoder(in)
	if err := dec.Decode(&o); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := openLedger(o.Ledger)
	if err != nil {
		return err
	}
	defer l.close()
	w := &worker{order: o, ledger: l, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * concurrency}}}
	for {
		err := w.run(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		// The database may be gone at the start, too: a supervisor starts it again.
		time.Sleep(100 * time.Millisecond)
	}
}

type worker struct {
	order
	ledger *ledger
	client *http.Client
	serial atomic.Int64
}

func (w *worker) run(ctx context.Context) error {
	link, err := w.Spec.Dial()
	if err != nil {
		return err
	}
	defer link.Close()
	c, err := w.Spec.Claimer(ctx, link)
	if err != nil {
		return err
	}
	note := func(what string, n int) {
		if n > 0 {
			w.must(event{Kind: noted, Worker: w.Name, What: what, N: n})
		}
	}
	d, err := sendonce.New[combo.Mail](watched{c, w}, sendonce.SenderFunc[combo.Mail](w.send), sendonce.Config{
		Concurrency: concurrency, BatchSize: 40, SendTimeout: sendTimeout, Lease: lease, StopTimeout: 2 * time.Second,
		PollInterval: 200 * time.Millisecond, MaxAttempts: 1000, Delivery: w.Delivery, Owner: w.Name,
		Backoff: func(int) time.Duration { return 100 * time.Millisecond },
		Logger:  slog.New(slog.DiscardHandler),
		Hooks: sendonce.Hooks{
			Reaped: func(r sendonce.Reaped) { note("reclaimed", r.Returned+r.Dead+r.Unknown) },
			Excepted: func(e sendonce.Exception) {
				switch {
				case e.Cause == sendonce.Late:
					note("late fact", 1)
				case e.Result.Outcome == sendonce.Done:
					note("refused fact", 1)
				default:
					note("refused opinion", 1)
				}
			},
			Lost: func(int64, int) { note("lost claim", 1) },
			Settled: func(_ int, _ time.Duration, err error) {
				if err != nil {
					note("failed mark", 1)
				}
			},
		},
	})
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

func (w *worker) must(e event) {
	if err := w.ledger.write(e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
}

// send gives a message to the provider, and writes down that it does.
func (w *worker) send(ctx context.Context, m sendonce.Item[combo.Mail]) error {
	name := fmt.Sprintf("%s.%d", w.Name, w.serial.Add(1))
	w.must(event{Kind: begun, Worker: w.Name, Key: m.Key.(int64), Send: name, Idem: m.IdempotencyKey})
	err := w.post(ctx, name, m)
	w.must(event{Kind: answered, Worker: w.Name, Key: m.Key.(int64), Send: name, OK: err == nil})
	return err
}

func (w *worker) post(ctx context.Context, name string, m sendonce.Item[combo.Mail]) error {
	form := url.Values{"key": {strconv.FormatInt(m.Key.(int64), 10)}, "send": {name}, "idem": {m.IdempotencyKey}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.Provider+"?"+form.Encode(), nil)
	if err != nil {
		return sendonce.Permanent(err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return sendonce.Ambiguous(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return sendonce.Ambiguous(err)
	}
	if resp.StatusCode != http.StatusOK {
		return sendonce.NotSent(errors.New(resp.Status))
	}
	return nil
}

// watched writes down which facts the database has confirmed.
type watched struct {
	combo.Claimer
	w *worker
}

func (c watched) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	es, err := c.Claimer.Settle(ctx, rs)
	if err != nil {
		return es, err
	}
	refused := map[sendonce.Key]bool{}
	for _, e := range es {
		refused[e.Result.Key] = e.Cause != sendonce.Late
	}
	for _, r := range rs {
		if r.Outcome == sendonce.Done && !refused[r.Key] {
			c.w.must(event{Kind: marked, Worker: c.w.Name, Key: r.Key.(int64)})
		}
	}
	return es, nil
}
