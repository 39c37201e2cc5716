package servers

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
)

// process is a child that dies with this process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has been waited for
	err  error         // after done: why it ended
}

// forks carries the starts of children to one thread that never ends: the
// kernel's death signal goes by the thread that forked, not by the process.
var forks = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go forker(c)
	return c
})

func forker(c <-chan func()) {
	runtime.LockOSThread()
	for f := range c {
		f()
	}
}

// spawn starts cmd. The caller has set everything but SysProcAttr.
func spawn(cmd *exec.Cmd, as *account) (*process, error) {
	cmd.SysProcAttr = childAttr(as)
	started := make(chan error)
	forks() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	p.err = p.cmd.Wait()
	if p.err == nil {
		p.err = errors.New("exit status 0")
	}
	close(p.done)
}

// exited returns why the process ended, nil while it runs.
func (p *process) exited() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// signalTree sends sig to the process and to all that descend from it, the
// parents first: a stopped or dead parent makes no more children.
func (p *process) signalTree(sig syscall.Signal) {
	seen := map[int]bool{}
	for fresh := true; fresh; {
		fresh = false
		for _, pid := range family(p.cmd.Process.Pid) {
			if !seen[pid] {
				seen[pid], fresh = true, true
				_ = syscall.Kill(pid, sig)
			}
		}
	}
}

// family returns pid and its descendants, parents before children.
func family(pid int) []int {
	children := map[int][]int{}
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p.pid)
	}
	pids := []int{pid}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return pids
}

// entry is one line of the process table.
type entry struct {
	pid, parent int
	zombie      bool
}

// alive says whether the process exists and has not ended.
func alive(pid int) bool {
	return slices.ContainsFunc(processes(), func(e entry) bool { return e.pid == pid && !e.zombie })
}
