package sendonce_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
)

// simPower is what a run must have met to say anything.
type simPower struct {
	Claims, Sends, Accepted, Second                int
	Kills, Stops, Pauses, Outages, Steps, Foreign  int
	Requeued, Forgotten                            int
	Faults, LostReplies, LateCommits               int
	Reclaimed, Orphans, Refused, Late, Alone, Lost int
}

func (p *simPower) fields() map[string]*int {
	return map[string]*int{
		"claims": &p.Claims, "sends": &p.Sends, "accepted": &p.Accepted, "accepted again, explained": &p.Second,
		"kills": &p.Kills, "stops": &p.Stops, "pauses": &p.Pauses, "outages": &p.Outages, "clock steps": &p.Steps, "rows moved by the application": &p.Foreign,
		"rows requeued": &p.Requeued, "claims deleted by hand": &p.Forgotten,
		"faulty calls": &p.Faults, "lost replies": &p.LostReplies, "late commits": &p.LateCommits,
		"rows reclaimed": &p.Reclaimed, "rows without a claim": &p.Orphans, "refused opinions": &p.Refused, "late facts": &p.Late, "sent alone": &p.Alone, "claims lost": &p.Lost,
	}
}

func (p *simPower) add(o simPower) {
	more := o.fields()
	for name, n := range p.fields() {
		*n += *more[name]
	}
}

// simReport is what one process of the simulation says at its end.
type simReport struct {
	Schedules int
	Failed    uint64 // the first seed that broke a rule, or 0
	Problems  []string
	Power     simPower
}

const (
	simPart   = "SENDONCE_SIM_PART"  // set for the processes of a run: which of how many
	simLimit  = "SENDONCE_SIM_LIMIT" // for how long they run
	simResult = "simulation: "
)

// Many schedules of workers that are killed, stopped, paused and cut off, with
// stores that fail, hang, lose replies, commit late and step their clocks, and
// Senders that do all that Senders do. docs/semantics.md must hold after each
// call, and at the end of each schedule; docs/testing.md says more.
//
// SENDONCE_SEEDS is the number of schedules, SENDONCE_SEED runs a single one. A
// seed decides everything but the choices of Go's scheduler, so schedules run in
// processes of one thread, one per core.
func TestSimulation(t *testing.T) {
	first, seeds, limit := simSeeds()
	if part := os.Getenv(simPart); part != "" {
		var of, parts uint64
		_, err := fmt.Sscanf(part, "%d/%d", &of, &parts)
		require.NoError(t, err)
		limit, err = time.ParseDuration(os.Getenv(simLimit))
		require.NoError(t, err)
		simulate(t, first, seeds, of, parts, limit)
		return
	}
	began := time.Now()
	var all simReport
	for _, r := range simProcesses(t, seeds, limit) {
		all.Schedules += r.Schedules
		all.Power.add(r.Power)
		if r.Failed != 0 && (all.Failed == 0 || r.Failed < all.Failed) {
			all.Failed, all.Problems = r.Failed, r.Problems
		}
	}
	for _, p := range all.Problems {
		t.Errorf("schedule %d: %s", all.Failed, p)
	}
	if all.Failed != 0 {
		t.Errorf("run it again:  SENDONCE_SEED=%d go test -count=1 -run '^TestSimulation$' .", all.Failed)
	}
	line := fmt.Sprintf("%d schedules in %v: %s", all.Schedules, time.Since(began).Round(time.Second), all.Power)
	t.Log(line)
	if path := os.Getenv("SENDONCE_RESULT"); path != "" && !t.Failed() {
		require.NoError(t, os.WriteFile(path, []byte(line+"\n"), 0o644))
	}
	if all.Schedules >= 500 && !t.Failed() {
		for name, n := range all.Power.fields() {
			if *n == 0 {
				t.Errorf("no power: %s: none", name)
			}
		}
	}
}

func (p simPower) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		return err.Error()
	}
	return strings.NewReplacer(`"`, "", ":", " ", ",", ", ", "{", "", "}", "").Replace(string(text))
}

func simSeeds() (first, seeds uint64, limit time.Duration) {
	first, seeds, limit = 1, 1<<40, 7*time.Second
	if n, err := strconv.ParseUint(os.Getenv("SENDONCE_SEEDS"), 10, 64); err == nil {
		seeds, limit = n, 1000*time.Hour
	}
	if one, err := strconv.ParseUint(os.Getenv("SENDONCE_SEED"), 10, 64); err == nil {
		first, seeds = one, 1
	}
	return first, seeds, limit
}

// simProcesses runs the schedules in processes of one thread each. When one has
// failed, the others end.
func simProcesses(t *testing.T, seeds uint64, limit time.Duration) []simReport {
	parts := min(uint64(runtime.NumCPU()), seeds)
	if n, err := strconv.ParseUint(os.Getenv("SENDONCE_SIM_PROCESSES"), 10, 64); err == nil {
		parts = n
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reports := make([]simReport, parts)
	var wg sync.WaitGroup
	for i := range reports {
		wg.Go(func() {
			reports[i] = simProcess(ctx, fmt.Sprintf("%d/%d", i, parts), limit)
			if reports[i].Failed != 0 {
				cancel()
			}
		})
	}
	wg.Wait()
	return reports
}

// simProcess starts this program again.
func simProcess(ctx context.Context, part string, limit time.Duration) (r simReport) {
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSimulation$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", simPart+"="+part, simLimit+"="+limit.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		return simReport{Failed: 1, Problems: []string{err.Error()}}
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return simReport{Failed: 1, Problems: []string{err.Error()}}
	}
	var seed uint64 // the one that runs
	ran, ended := 0, false
	var rest []string
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, simResult); ok {
			ended = json.Unmarshal([]byte(text), &r) == nil
		} else if text, ok := strings.CutPrefix(line, "@"); ok {
			seed, _ = strconv.ParseUint(text, 10, 64)
			ran++
		} else if len(rest) < 200 {
			rest = append(rest, line)
		}
	}
	_, _ = io.Copy(io.Discard, out)
	err = cmd.Wait()
	if !ended && ctx.Err() == nil {
		r = simReport{Schedules: ran, Failed: max(seed, 1), Problems: []string{fmt.Sprintf("the process has died: %v\n%s\n%s", err, strings.Join(rest, "\n"), stderr.String())}}
	} else if err != nil && r.Failed == 0 && ctx.Err() == nil {
		r.Failed, r.Problems = max(seed, 1), append(rest, stderr.String())
	}
	return r
}

// simulate is one process's share of the schedules.
func simulate(t *testing.T, first, seeds, of, parts uint64, limit time.Duration) {
	// A collection in the midst of a schedule would change the order of goroutines.
	debug.SetGCPercent(-1)
	var r simReport
	began := time.Now()
	for seed := first + of; seed < first+seeds && r.Failed == 0 && !t.Failed(); seed += parts {
		if time.Since(began) > limit {
			break
		}
		fmt.Printf("@%d\n", seed)
		schedule(t, seed, &r)
		if r.Schedules%8 == 0 {
			runtime.GC()
		}
	}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	fmt.Printf("%s%s\n", simResult, text)
}

func schedule(t *testing.T, seed uint64, r *simReport) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		jitter := rand.New(rand.NewPCG(seed, 1))
		sendonce.SetRandom(func(n int64) int64 {
			mu.Lock()
			defer mu.Unlock()
			return jitter.Int64N(n)
		})
		m := newSim(t, seed)
		sendonce.SetWall(m.wall)
		m.play()
		r.Schedules++
		r.Power.add(m.power)
		if len(m.problems) > 0 {
			r.Failed, r.Problems = seed, m.problems
		}
	})
}
