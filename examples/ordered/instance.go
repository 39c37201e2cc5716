package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/sendonce/sendonce/examples/internal/cli"
)

// readyLine is what an instance prints when it can be asked.
const readyLine = "listening at http://%s\n"

// instance is a process that serves.
type instance struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	address string // and its name in the ledger
	killed  bool
	ended   chan error
}

// printed has what instances said: both say the same of Redis.
var printed sync.Map

// start starts an instance and waits until it can be asked. What it logs is printed.
func start(ctx context.Context, o options) (*instance, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-serve", "127.0.0.1:0", "-name", o.name, "-redis", o.redis, "-work", o.work.String())
	cmd.Env = append(os.Environ(), cli.EnvParent+"=1")
	cmd.Stderr = os.Stderr
	// Ctrl-C is for its parent, which then stops it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	i := &instance{cmd: cmd, stdin: in, ended: make(chan error, 1)}
	ready := make(chan string, 1)
	go func() {
		defer close(ready)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var address string
			if _, err := fmt.Sscanf(lines.Text(), readyLine, &address); err == nil {
				ready <- address
				continue
			}
			if _, before := printed.LoadOrStore(lines.Text(), true); !before {
				fmt.Println(lines.Text())
			}
		}
		i.ended <- cmd.Wait()
	}()
	select {
	case i.address = <-ready:
	case <-ctx.Done():
	}
	if i.address == "" {
		_ = i.stop()
		return nil, errors.New("an instance did not start")
	}
	return i, nil
}

// stop ends the instance in good order, as its supervisor would do by SIGTERM, and
// returns when it has ended.
func (i *instance) stop() error {
	_ = i.stdin.Close()
	if err := <-i.ended; err != nil && !i.killed {
		return fmt.Errorf("an instance ended with %w", err)
	}
	return nil
}

func (i *instance) signal(s syscall.Signal) error { return i.cmd.Process.Signal(s) }
