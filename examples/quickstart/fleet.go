package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// stopTimeout is how long a worker may take to stop when asked to.
const stopTimeout = 8 * time.Second

// fleet is the worker processes, seen from their parent.
type fleet struct{ workers []*workerProcess }

// workerProcess is one of them, and what it has told so far.
type workerProcess struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   string
	ended chan struct{} // closed when it is gone and all that it told was read
	err   error         // how it ended; valid after ended is closed

	mu       sync.Mutex
	inFlight map[string]string // key to Message-ID: announced, and not known to be recorded
	claimed  int
	outcomes map[string]int // of recorded rows
	returned int            // rows of others that it gave back
	excepted map[string]int // by cause
	killed   bool
}

// startFleet starts the workers, each as a process of this same program. They
// end when their standard input does: so they stop when we ask them to, and
// they also do when we die.
func startFleet(dir folder, jobs []job, told func(w *workerProcess, e event)) (*fleet, error) {
	f := &fleet{}
	for _, j := range jobs {
		w, err := startWorker(dir, j, told)
		if err != nil {
			f.stop()
			return nil, fmt.Errorf("cannot start %s: %w", j.Worker, err)
		}
		f.workers = append(f.workers, w)
	}
	return f, nil
}

func startWorker(dir folder, j job, told func(w *workerProcess, e event)) (*workerProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &workerProcess{
		name: j.Worker, cmd: exec.Command(self, workerArg), log: dir.file(j.Worker + ".log"), ended: make(chan struct{}),
		inFlight: map[string]string{}, outcomes: map[string]int{}, excepted: map[string]int{},
	}
	log, err := os.Create(w.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	w.cmd.Stderr = log
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go w.listen(stdout, told)
	// The job travels by the pipe: arguments and environments of processes can be
	// read by others, and a DSN has a password.
	if err := json.NewEncoder(w.stdin).Encode(j); err != nil {
		_ = w.cmd.Process.Kill()
		<-w.ended
		return nil, err
	}
	return w, nil
}

// listen reads the worker's events until its end. A last line that was cut off
// is left out: then a mail counts as in flight that may be recorded, never the
// reverse.
func (w *workerProcess) listen(stdout io.Reader, told func(*workerProcess, event)) {
	defer close(w.ended)
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var e event
		if json.Unmarshal(line, &e) == nil {
			w.learn(e)
			told(w, e)
		}
	}
	w.err = w.cmd.Wait()
}

func (w *workerProcess) learn(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Event {
	case evClaimed:
		w.claimed += e.N
	case evSending:
		w.inFlight[e.Key] = e.ID
	case evMarked:
		for _, key := range e.Keys {
			delete(w.inFlight, key)
		}
		w.outcomes[e.Outcome] += len(e.Keys)
	case evReturned:
		w.returned += e.N
	case evExcepted:
		w.excepted[e.Text]++
	}
}

// held is the rows that the worker has claimed and not recorded.
func (w *workerProcess) held() (rows, sending int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows = w.claimed
	for _, n := range w.outcomes {
		rows -= n
	}
	return rows, len(w.inFlight)
}

func (w *workerProcess) gone() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// problem says why a worker ended before its time; empty if it did not.
func (w *workerProcess) problem() string {
	if !w.gone() || w.err == nil || w.killed {
		return ""
	}
	text, _ := os.ReadFile(w.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Sprintf("%s ended with %v: %s", w.name, w.err, lines[len(lines)-1])
}

// kill kills a worker that is sending, drawn at random, and returns it once it
// is gone. Nil: none is sending at this moment.
func (f *fleet) kill(rnd *rand.Rand) *workerProcess {
	for _, i := range rnd.Perm(len(f.workers)) {
		w := f.workers[i]
		if _, sending := w.held(); sending == 0 || w.gone() || w.cmd.Process.Kill() != nil {
			continue
		}
		w.killed = true
		<-w.ended
		return w
	}
	return nil
}

func (f *fleet) running() int {
	n := 0
	for _, w := range f.workers {
		if !w.gone() {
			n++
		}
	}
	return n
}

// stop asks all workers to stop and waits until they are gone.
func (f *fleet) stop() {
	for _, w := range f.workers {
		_ = w.stdin.Close()
	}
	deadline := time.After(stopTimeout)
	for _, w := range f.workers {
		select {
		case <-w.ended:
		case <-deadline:
			_ = w.cmd.Process.Kill()
			<-w.ended
			deadline = time.After(0) // the others have had their time, too
		}
	}
}

// inFlight are the Message-IDs that killed workers had begun to send and had not
// recorded: what may come twice.
func (f *fleet) inFlight() map[string]bool {
	ids := map[string]bool{}
	for _, w := range f.workers {
		if w.killed {
			for _, id := range w.inFlight {
				ids[id] = true
			}
		}
	}
	return ids
}
