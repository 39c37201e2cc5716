package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
	"github.com/sendonce/sendonce/sender/sendertest"
)

// workerVar makes a process of this binary a worker and not a test.
const workerVar = "SENDONCE_TEST_WORKER"

// order is what a worker process is told to do.
type order struct {
	Spec        combo.Spec
	Record      string // the file that sends are recorded in
	Name        string
	Concurrency int
	BatchSize   int
	Timeout     time.Duration // of a send
	Lease       time.Duration
	StopTimeout time.Duration
	MaxAttempts int

	Takes    time.Duration // a send
	Stubborn int64         // this row's send ignores its context for a minute
	Deadly   int64         // this row's send kills the process
	Recorded bool          // it does so when what was sent before is recorded
	Drain    bool          // until nothing is left, not until SIGTERM

	unrecorded func() int
}

// work is the life of a worker process. It ends with its parent.
func work(in io.Reader) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	rec, err := sendertest.NewFile[combo.Mail](o.Record, sender(o.send))
	if err != nil {
		return err
	}
	link, err := o.Spec.Dial()
	if err != nil {
		return err
	}
	defer link.Close()
	c, err := o.Spec.Claimer(ctx, link)
	if err != nil {
		return err
	}
	cfg := config(o.Name)
	cfg.Concurrency, cfg.BatchSize, cfg.MaxAttempts = o.Concurrency, o.BatchSize, o.MaxAttempts
	cfg.SendTimeout, cfg.Lease, cfg.StopTimeout = o.Timeout, o.Lease, o.StopTimeout
	cfg.Hooks.Claimed = func(n int, _ time.Duration, err error) {
		if n == 0 && err == nil {
			_ = os.WriteFile(o.Record+".idle", nil, 0o600)
		}
	}
	d, err := sendonce.New[combo.Mail](c, rec.As(o.Name), cfg)
	if err != nil {
		return err
	}
	o.unrecorded = func() int { return d.Health().Unrecorded }
	if o.Drain {
		_, err = d.Drain(ctx)
	} else {
		err = d.Run(ctx)
	}
	if n := link.DB.Stats().InUse; n > 0 && err == nil {
		return fmt.Errorf("%d connections are in use after Run", n)
	}
	return err
}

func (o *order) send(ctx context.Context, m item) error {
	switch m.Key {
	case o.Stubborn:
		time.Sleep(time.Minute)
	case o.Deadly:
		for end := time.Now().Add(2 * time.Second); o.Recorded && o.unrecorded() > 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return takes(o.Takes)(ctx, m)
}

// child is a worker process.
type child struct {
	cmd    *exec.Cmd
	in     io.Closer
	stderr bytes.Buffer
	ended  chan struct{}
}

// spawn starts a worker process for the scene.
func (s *scene) spawn(t *testing.T, o order) *child {
	t.Helper()
	o.Spec, o.Record = s.Spec(), s.record
	c := &child{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), workerVar+"=1")
	c.cmd.Stderr = &c.stderr
	in, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	c.in = in
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		_ = in.Close()
		if t.Failed() {
			t.Logf("%s said: %s", o.Name, &c.stderr)
		}
	})
	require.NoError(t, json.NewEncoder(in).Encode(o))
	return c
}

// idle waits until a worker process has found nothing to do.
func (s *scene) idle(t *testing.T) {
	t.Helper()
	await(t, 20*time.Second, "the process has looked for rows", func() bool {
		_, err := os.Stat(s.record + ".idle")
		return err == nil
	})
}

// wait returns the exit code: -1 if a signal has ended the process.
func (c *child) wait(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(within):
		t.Fatalf("a worker process does not end within %v", within)
	}
	return c.cmd.ProcessState.ExitCode()
}
