// Package child is what every contender of a benchmark says to the suite. Each
// runs in a process of its own, so that its CPU, memory and allocations are its
// own. It says "ready" when it is connected and its rows are there, begins when
// it is told to, and then says what it has measured.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Job is what a contender gets, as JSON in its only argument.
type Job struct {
	Contender string
	DSN       string
	Redis     string // address of a Redis, for those that need one
	Rows      int
	Batch     int
	Workers   int
	Send      time.Duration // what the Sender takes; 0: it returns at once
	Retry     bool          // every twentieth row fails once
	Insert    bool          // rows are inserted beside the workers, a twentieth more
	Finished  int           // done rows below those to be worked on
	Profile   string        // file for a CPU profile, or ""
}

// Lap is what a contender measures of itself.
type Lap struct {
	Rows     int
	Seconds  float64 // from the start until the last row was recorded
	CPU      float64 // seconds, of the whole process
	Mallocs  uint64
	PeakKB   int64
	ClaimP50 float64 // seconds; 0: not known
	ClaimP99 float64
	Insert   float64           `json:",omitempty"` // seconds that inserting the rows took, for those who insert their own
	Tenths   []float64         `json:",omitempty"` // seconds that each tenth of the rows took
	Error    string            `json:",omitempty"`
	Versions map[string]string `json:",omitempty"`
}

// Results is how many results a contender records until it has finished.
func (j Job) Results() int {
	n := j.Rows
	if j.Insert {
		n += j.Inserted()
	}
	if j.Retry {
		n += n / 20
	}
	return n
}

// Inserted is how many rows are inserted beside the workers: a whole number of
// twenties, for Retry, in each of 45 portions.
func (j Job) Inserted() int { return 45 * j.Portion() }

// Portion is how many rows are inserted at once.
func (j Job) Portion() int { return max(20, j.Rows/900/20*20) }

// ParseJob reads the job from the command line.
func ParseJob(arg string) (Job, error) {
	var j Job
	err := json.Unmarshal([]byte(arg), &j)
	return j, err
}

// Gate waits at the start, and measures from there on.
type Gate struct {
	mu     sync.Mutex
	claims []time.Duration
	Insert time.Duration

	began   time.Time
	ended   time.Time
	cpu     time.Duration
	mallocs uint64
}

// Start says that the contender is ready, and waits for the suite.
func (g *Gate) Start() error {
	runtime.GC()
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("nobody says go: %w", err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	g.mallocs, g.cpu, g.began = m.Mallocs, processCPU(), time.Now()
	return nil
}

// Connect makes n connections of a pool, which are idle afterwards: what that costs
// is not part of what is measured.
func Connect[C interface{ Release() }](ctx context.Context, n int, acquire func(context.Context) (C, error)) error {
	for range n {
		c, err := acquire(ctx)
		if err != nil {
			return err
		}
		defer c.Release() // all at once, at the end
	}
	return nil
}

// Claimed takes note of how long a claim took.
func (g *Gate) Claimed(took time.Duration) {
	g.mu.Lock()
	g.claims = append(g.claims, took)
	g.mu.Unlock()
}

// Done is the moment when the last row was recorded: what follows is not part of
// the rate. Without it, that is Finish.
func (g *Gate) Done() { g.ended = time.Now() }

// Since is the time since the start.
func (g *Gate) Since() time.Duration { return time.Since(g.began) }

// Finish prints what was measured.
func (g *Gate) Finish(rows int, tenths []float64) error {
	cpu := processCPU() - g.cpu
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if g.ended.IsZero() {
		g.ended = time.Now()
	}
	lap := Lap{
		Rows: rows, Seconds: g.ended.Sub(g.began).Seconds(), CPU: cpu.Seconds(), Mallocs: m.Mallocs - g.mallocs,
		PeakKB: peakKB(), Insert: g.Insert.Seconds(), Tenths: tenths,
	}
	if n := len(g.claims); n > 0 {
		slices.Sort(g.claims)
		lap.ClaimP50, lap.ClaimP99 = g.claims[n/2].Seconds(), g.claims[n*99/100].Seconds()
	}
	return json.NewEncoder(os.Stdout).Encode(lap)
}

// Fail prints an error in place of a Lap.
func Fail(err error) {
	_ = json.NewEncoder(os.Stdout).Encode(Lap{Error: err.Error()})
	os.Exit(1)
}

func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakKB is the most memory that this process has had, 0 if that is not known.
func peakKB() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb
		}
	}
	return 0
}

// Run starts a contender, calls before when it is ready and after when it has
// finished, and returns what it says.
func Run(ctx context.Context, command []string, job Job, before, after func() error) (Lap, error) {
	text, err := json.Marshal(job)
	if err != nil {
		return Lap{}, err
	}
	cmd := exec.CommandContext(ctx, command[0], append(slices.Clone(command[1:]), string(text))...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return Lap{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return Lap{}, err
	}
	if err := cmd.Start(); err != nil {
		return Lap{}, err
	}
	lap, err := talk(bufio.NewReader(out), func() error { _, err := fmt.Fprintln(in, "go"); return err }, before, after)
	_ = in.Close()
	if waited := cmd.Wait(); err == nil {
		err = waited
	}
	if err != nil {
		return lap, fmt.Errorf("%s: %w", job.Contender, err)
	}
	return lap, nil
}

func talk(out *bufio.Reader, start, before, after func() error) (lap Lap, err error) {
	line, err := out.ReadString('\n')
	if err != nil {
		return lap, fmt.Errorf("it ended before it was ready: %w", err)
	}
	if strings.TrimSpace(line) == "ready" {
		if err := before(); err != nil {
			return lap, err
		}
		if err := start(); err != nil {
			return lap, err
		}
		if line, err = out.ReadString('\n'); err != nil {
			return lap, fmt.Errorf("it ended without a result: %w", err)
		}
		if err := after(); err != nil {
			return lap, err
		}
	}
	if err := json.Unmarshal([]byte(line), &lap); err != nil {
		return lap, fmt.Errorf("it said %q: %w", line, err)
	}
	if lap.Error != "" {
		return lap, errors.New(lap.Error)
	}
	return lap, nil
}
