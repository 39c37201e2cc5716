package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sendonce/sendonce/examples/internal/cli"
	"github.com/sendonce/sendonce/examples/internal/demo"
	"github.com/sendonce/sendonce/partition"
)

// sentLine is what a worker prints after a send.
const sentLine = "partition %d of %d: sent row %v to %s\n"

// sent is a send of a worker.
type sent struct{ partition, row int }

// fleet is one worker process for each partition.
type fleet struct {
	workers []*exec.Cmd
	stdin   []io.Closer
	sends   chan sent  // closed when all workers have ended
	ended   chan error // one for each worker
}

func startFleet(f demo.Flags, send time.Duration) (*fleet, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	fl := &fleet{sends: make(chan sent), ended: make(chan error, f.Workers)}
	var reading sync.WaitGroup
	for k := range f.Workers {
		cmd := exec.Command(self, "-driver", f.Driver, "-send", send.String())
		cmd.Env = append(os.Environ(), partition.EnvPartition+"="+strconv.Itoa(k), partition.EnvCount+"="+strconv.Itoa(f.Workers),
			envDSN+"="+f.DSN, cli.EnvParent+"=1")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return fl, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return fl, err
		}
		if err := cmd.Start(); err != nil {
			return fl, err
		}
		fl.workers, fl.stdin = append(fl.workers, cmd), append(fl.stdin, in)
		reading.Go(func() { fl.read(k, cmd, out) })
	}
	go func() {
		reading.Wait()
		close(fl.sends)
	}()
	return fl, nil
}

// read reads what a worker says, until it ends.
func (fl *fleet) read(k int, cmd *exec.Cmd, out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var s sent
		var of int
		if _, err := fmt.Sscanf(lines.Text(), "partition %d of %d: sent row %d", &s.partition, &of, &s.row); err == nil {
			fl.sends <- s
		}
	}
	err := cmd.Wait()
	if err != nil {
		err = fmt.Errorf("worker %d ended with %w", k, err)
	}
	fl.ended <- err
}

// abandon ends the workers in good order: their parent is as good as gone. After
// Ctrl-C they may have had a signal of their own; a second one would kill them.
func (fl *fleet) abandon() {
	for _, in := range fl.stdin {
		_ = in.Close()
	}
	go func() {
		for range fl.sends { // nobody counts them any more
		}
	}()
	for range fl.workers {
		<-fl.ended
	}
}

// terminate does what Supervisor and systemd do.
func (fl *fleet) terminate() error {
	var errs []error
	for _, w := range fl.workers {
		errs = append(errs, w.Process.Signal(syscall.SIGTERM))
	}
	return errors.Join(errs...)
}
