// Package server starts durable database servers for benchmarks, each private and
// in a folder of its own, and measures what they do. The servers of the tests
// won't do: here every commit is flushed to the disk.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Server is a running server.
type Server struct {
	Kind    string // "postgres", "mariadb" or "redis"
	Version string
	Addr    string // host:port
	Dir     string

	cmd  *exec.Cmd
	done chan struct{}
}

const startWithin = time.Minute

// ErrMissing is in the error of a server whose programs are not on this machine.
var ErrMissing = errors.New("its programs are not here")

// start runs a program as the account and waits until probe answers.
func start(ctx context.Context, s *Server, account string, probe func(context.Context) (string, error), program string, args ...string) error {
	log, err := os.Create(filepath.Join(s.Dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(program, args...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.Dir, log, log
	if s.cmd.SysProcAttr, err = attributes(account); err != nil {
		return err
	}
	s.done = make(chan struct{})
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() { _ = s.cmd.Wait(); close(s.done) }()
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		if s.Version, err = probe(ctx); err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
			continue
		case <-ctx.Done():
		case <-s.done:
		}
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s does not answer: %w\n%s", s.Kind, err, text)
	}
}

// Stop ends the server at once and deletes its folder.
func (s *Server) Stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		sig := syscall.SIGTERM
		if s.Kind == "postgres" {
			sig = syscall.SIGINT // does not wait for its clients
		}
		_ = s.cmd.Process.Signal(sig)
		select {
		case <-s.done:
		case <-time.After(20 * time.Second):
			_ = s.cmd.Process.Kill()
			<-s.done
		}
	}
	_ = os.RemoveAll(s.Dir)
}

// CPU is the time that the server's processes have used, those that have ended
// included.
func (s *Server) CPU() (time.Duration, error) { return treeCPU(s.cmd.Process.Pid) }

// attributes let the kernel end the server when this process ends. Servers refuse
// to run as root, so root runs them as the account.
func attributes(account string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		return attr, nil
	}
	uid, gid, err := ids(account)
	if err != nil {
		return nil, err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, nil
}

func ids(account string) (uid, gid int, err error) {
	u, err := user.Lookup(account)
	if err != nil {
		return 0, 0, err
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return uid, gid, errors.Join(err1, err2)
}

// folder makes the server's folder below dir.
func folder(dir, kind, account string) (string, error) {
	dir, err := os.MkdirTemp(dir, "sendonce-bench-"+kind+"-")
	if err != nil || os.Getuid() != 0 {
		return dir, err
	}
	uid, gid, err := ids(account)
	if err != nil {
		return dir, err
	}
	return dir, errors.Join(os.Chown(dir, uid, gid), os.Chmod(dir, 0o755))
}

// runOnce runs a program to its end, as the account.
func runOnce(ctx context.Context, dir, account, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var err error
	if cmd.SysProcAttr, err = attributes(account); err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(program), err, out)
	}
	return nil
}

// find looks for a program in PATH and in folders where distributions hide it.
func find(name string, folders ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, f := range folders {
		if found, _ := filepath.Glob(filepath.Join(f, name)); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, ErrMissing)
}

// takePort chooses a free port, which is the server's from then on.
func (s *Server) takePort() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	s.Addr = l.Addr().String()
	_, port, err := net.SplitHostPort(s.Addr)
	return port, err
}

// treeCPU adds up the process and all below it. A process's account holds those
// of its children that have ended.
func treeCPU(root int) (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	type process struct {
		parent int
		ticks  int64
	}
	table := map[int]process{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		// "pid (name) state parent ...", and the name may hold anything.
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(f) < 15 {
			continue
		}
		p := process{}
		p.parent, _ = strconv.Atoi(f[1])
		for _, field := range f[11:15] { // utime stime cutime cstime
			n, _ := strconv.ParseInt(field, 10, 64)
			p.ticks += n
		}
		table[pid] = p
	}
	if _, ok := table[root]; !ok {
		return 0, fmt.Errorf("the server's process %d is gone", root)
	}
	var total int64
	for pid, p := range table {
		for up := pid; up != 0; up = table[up].parent {
			if up == root {
				total += p.ticks
				break
			}
		}
	}
	return time.Duration(total) * tick, nil
}
