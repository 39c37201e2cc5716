// Package strategies tests what every claim strategy of package claim promises on
// every database, with real Dispatchers in goroutines and in processes.
package strategies

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
	"github.com/sendonce/sendonce/sender/sendertest"
)

// workerVar makes a process of this binary a worker and not a test.
const workerVar = "SENDONCE_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVar) != "" {
		if err := work(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	servers.Main(m)
}

// sized is the size of a long programme: a sample in make soak, the whole in make
// full.
func sized(sample, whole int) int {
	if servers.Full() {
		return whole
	}
	return sample
}

// order is what a worker process is told to do.
type order struct {
	Spec    combo.Spec
	Record  string // the file that sends are recorded in
	Workers int    // goroutines with a Dispatcher each, on one pool
	Strict  bool   // an error of the database ends the process with it
}

// config is what workers run with. Retries are soon, and no claim is taken from a
// worker that is merely slow.
func config(name string) sendonce.Config {
	return sendonce.Config{
		Concurrency: 4, BatchSize: 20, Owner: name, PollInterval: 100 * time.Millisecond,
		Backoff: func(int) time.Duration { return 50 * time.Millisecond },
	}
}

// fails are the rows whose first send fails: one in twenty.
func fails(item sendonce.Item[combo.Mail]) bool {
	key, ok := item.Key.(int64)
	return ok && key%20 == 0
}

// once is a Sender to whom some rows have to be given twice.
var once = sendonce.SenderFunc[combo.Mail](func(_ context.Context, item sendonce.Item[combo.Mail]) error {
	switch {
	case item.Value.Value != combo.ValueOf(item.Key):
		return sendonce.Permanent(fmt.Errorf("the value of row %v is %q", item.Key, item.Value.Value))
	case fails(item) && item.Attempt == 1:
		return fmt.Errorf("not now")
	}
	return nil
})

// work is the life of a worker process: it drains the table, or ends with its
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
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	rec, err := sendertest.NewFile[combo.Mail](o.Record, once)
	if err != nil {
		return err
	}
	link, err := o.Spec.Dial()
	if err != nil {
		return err
	}
	defer link.Close()
	errs := make(chan error)
	for i := range o.Workers {
		cfg := config(fmt.Sprintf("%d-%d", os.Getpid(), i))
		if o.Strict {
			cfg.Hooks = noErrors()
		}
		go func() { errs <- drainOne(ctx, o.Spec, link, rec, cfg) }()
	}
	for range o.Workers {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return err
}

func drainOne(ctx context.Context, s combo.Spec, l *combo.Link, rec *sendertest.Recorder[combo.Mail], cfg sendonce.Config) error {
	c, err := s.Claimer(ctx, l)
	if err != nil {
		return err
	}
	d, err := sendonce.New(c, rec.As(cfg.Owner), cfg)
	if err != nil {
		return err
	}
	_, err = d.Drain(ctx)
	return err
}

// noErrors ends the process at an error of the database's, which a Dispatcher would
// repeat.
func noErrors() sendonce.Hooks {
	end := func(_ int, took time.Duration, err error) {
		if err != nil {
			fmt.Fprintf(os.Stderr, "after %v: %v\n", took, err)
			os.Exit(4)
		}
	}
	return sendonce.Hooks{Claimed: end, Settled: end, Extended: end}
}

// drainByProcesses drains the table by a process per Spec, each as the order says
// otherwise.
func drainByProcesses(t *testing.T, o order, specs ...combo.Spec) *sendertest.Log {
	t.Helper()
	record := filepath.Join(t.TempDir(), "sends")
	var wg sync.WaitGroup
	for _, s := range specs {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), workerVar+"=1")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		require.NoError(t, json.NewEncoder(in).Encode(order{s, record, o.Workers, o.Strict}))
		wg.Go(func() {
			assert.NoError(t, cmd.Wait(), "a worker process")
			_ = in.Close()
		})
	}
	wg.Wait()
	log, err := sendertest.Read(record)
	require.NoError(t, err)
	return log
}

// drain drains the table by a Dispatcher per Claimer.
func drain(t *testing.T, sender sendonce.Sender[combo.Mail], claimers ...combo.Claimer) *sendertest.Log {
	t.Helper()
	return drainWith(t, config("here"), sender, claimers...)
}

func drainWith(t *testing.T, cfg sendonce.Config, sender sendonce.Sender[combo.Mail], claimers ...combo.Claimer) *sendertest.Log {
	t.Helper()
	rec := sendertest.New(sender)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i, c := range claimers {
		wg.Go(func() {
			name := fmt.Sprint("worker ", i)
			cfg := cfg
			cfg.Owner = name
			d, err := sendonce.New(c, rec.As(name), cfg)
			if assert.NoError(t, err) {
				_, err = d.Drain(ctx)
				assert.NoError(t, err, "Drain of %s", name)
			}
		})
	}
	wg.Wait()
	return rec.Log
}

// exactlyOnce checks the record and the table: every row was handed out once,
// those that failed first twice, and all are done.
func exactlyOnce(t *testing.T, tb *combo.Table, log *sendertest.Log, retried func(sendonce.Key) bool) {
	t.Helper()
	count := map[sendonce.Key]int{}
	for _, s := range log.All() {
		count[s.Key]++
		if s.Attempt != count[s.Key] {
			t.Errorf("an attempt is charged that was none: %v", s)
		}
	}
	for _, key := range tb.Keys {
		want := 1
		if retried(key) {
			want = 2
		}
		if count[key] != want {
			t.Errorf("row %v was handed out %d times, and not %d: %v", key, count[key], want, log.Sends(key))
		}
	}
	assert.Len(t, count, len(tb.Keys), "rows in the record")
	assert.Empty(t, log.Overlaps(), "sends of one row that overlap")
	assert.Empty(t, log.MoreThanOnce())
	var done int
	require.NoError(t, tb.Admin.Get(&done, "SELECT COUNT(*) FROM "+tb.Name+" WHERE status = 3"))
	assert.Equal(t, len(tb.Keys), done, "rows that are done")
}

// noClaims checks that nothing is left of the claims.
func noClaims(t *testing.T, tb *combo.Table) {
	t.Helper()
	var claims int
	require.NoError(t, tb.Admin.Get(&claims, "SELECT COUNT(*) FROM sendonce_claims"))
	assert.Zero(t, claims, "claims that are left")
}

func never(sendonce.Key) bool { return false }

func oneInTwenty(key sendonce.Key) bool { return fails(sendonce.Item[combo.Mail]{Key: key}) }
