package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// local is a server of this machine's own programs.
type local struct {
	kind    *kind
	program string
	dir     string // ours, with all that the server writes
	port    string
	as      *account // nil: as we are
	options *Options
	proc    *process
}

// account is whom a server runs as.
type account struct{ uid, gid uint32 }

// newLocal prepares a data folder; start starts the server.
func newLocal(k *kind, o *Options) (*local, error) {
	program, err := k.program()
	if err != nil {
		return nil, err
	}
	l := &local{kind: k, program: program, options: o.orDefault()}
	if os.Getuid() == 0 {
		if l.as, err = unprivileged(k.users); err != nil {
			return nil, err
		}
	}
	if l.dir, err = makeDir(l.as); err != nil {
		return nil, err
	}
	if l.port, err = freePort(); err == nil && k.prepare != nil {
		err = k.prepare(l)
	}
	if err != nil {
		_ = os.RemoveAll(l.dir)
		return nil, err
	}
	return l, nil
}

// unprivileged returns the first of the accounts that exists, or nobody: servers
// refuse to run as root.
func unprivileged(names []string) (*account, error) {
	for _, name := range append(slices.Clone(names), "nobody") {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &account{uint32(uid), uint32(gid)}, nil
	}
	return nil, errors.New("running as root, and there is no account to run a server as")
}

// dirPrefix begins the names of our folders; the process id follows, by which
// sweep finds those of the dead.
const dirPrefix = "sendonce-servers-"

// makeDir makes a folder that the account can write to.
func makeDir(as *account) (string, error) {
	base := os.TempDir()
	if as != nil && !reachable(base) {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return "", err
	}
	if as != nil {
		err = errors.Join(os.Chown(dir, int(as.uid), int(as.gid)), os.Chmod(dir, 0o755))
	}
	return dir, err
}

// reachable says whether everybody can get into the folder.
func reachable(dir string) bool {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// command makes a command that runs as the server's account in its folder.
func (l *local) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "HOME="+l.dir, "LC_ALL=C.UTF-8", "TZ=UTC")
	return cmd
}

// runOnce runs a program to its end, for prepare.
func (l *local) runOnce(name string, args ...string) error {
	cmd := l.command(name, args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := spawn(cmd, l.as)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(startTimeout):
		p.signalTree(syscall.SIGKILL)
		<-p.done
	}
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %w\n%s", name, p.err, out.String())
	}
	return nil
}

func (l *local) address() string { return net.JoinHostPort("127.0.0.1", l.port) }

// start starts the server; the caller waits until it answers.
func (l *local) start(context.Context) error {
	if l.proc != nil && l.proc.exited() == nil {
		return errors.New("the server is running")
	}
	args := slices.Concat(l.kind.localFlags(l.dir, l.port), l.kind.flags, l.options.Args)
	cmd := l.command(l.program, args...)
	cmd.Env = append(cmd.Env, l.options.Env...)
	out, err := os.OpenFile(l.logPath(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	l.proc, err = spawn(cmd, l.as)
	return err
}

func (l *local) exited() error { return l.proc.exited() }

// stop asks the server to stop, and kills it if it does not.
func (l *local) stop() error {
	l.proc.signalTree(syscall.SIGCONT)
	if err := l.proc.cmd.Process.Signal(l.kind.stop); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-l.proc.done:
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("%s did not stop in %v", l.kind.title, stopTimeout), l.kill())
	}
}

// kill ends the server and all its processes, and returns when they are gone: a
// new start meets nothing that still holds the data.
func (l *local) kill() error {
	all := family(l.proc.cmd.Process.Pid)
	l.proc.signalTree(syscall.SIGKILL)
	<-l.proc.done
	for end := time.Now().Add(stopTimeout); ; time.Sleep(5 * time.Millisecond) {
		all = slices.DeleteFunc(all, func(pid int) bool { return !alive(pid) })
		if len(all) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes %v of %s survived a kill", all, l.kind.title)
		}
	}
}

func (l *local) pause() error  { l.proc.signalTree(syscall.SIGSTOP); return nil }
func (l *local) resume() error { l.proc.signalTree(syscall.SIGCONT); return nil }

func (l *local) remove() {
	if l.proc != nil && l.proc.exited() == nil {
		if err := l.kill(); err != nil {
			fmt.Fprintln(os.Stderr, "servers:", err)
		}
	}
	_ = os.RemoveAll(l.dir)
}

func (l *local) logPath() string { return filepath.Join(l.dir, "server.log") }

// log returns the end of what the server wrote.
func (l *local) log() string {
	const most = 4000
	f, err := os.Open(l.logPath())
	if err != nil {
		return ""
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(size-most, 0), io.SeekStart)
	}
	text, _ := io.ReadAll(f)
	return string(text)
}

// findProgram looks in PATH and then in the folders where distributions put
// servers, the newest version last in the alphabet first.
func findProgram(name string, folders ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, pattern := range folders {
		found, _ := filepath.Glob(filepath.Join(pattern, name))
		if len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("no program %s on this machine", name)
}

// sweep ends and removes what test binaries left that died without a farewell: a
// server that was paused then, a folder.
func sweep() {
	for _, base := range []string{os.TempDir(), "/tmp"} {
		found, _ := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
		for _, dir := range found {
			owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
			pid, err := strconv.Atoi(owner)
			if err != nil || alive(pid) {
				continue
			}
			for _, left := range workingIn(dir) {
				_ = syscall.Kill(left, syscall.SIGKILL)
			}
			_ = os.RemoveAll(dir)
		}
	}
}
