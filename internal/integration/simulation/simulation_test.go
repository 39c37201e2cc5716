// Package simulation runs the simulation of the loop for long, and on libraries
// with planted faults. It has no code of its own.
package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// root is the folder of the library's module.
const root = "../../.."

// fault is a library with one rule left out.
type fault struct{ name, file, old, new string }

// plantedSeeds is how many schedules may pass until a planted fault is found.
const plantedSeeds = 60_000

// TestManySchedules: 100,000 schedules, and 5,000 with -race.
func TestManySchedules(t *testing.T) {
	soak(t)
	for _, run := range []struct {
		name  string
		seeds int
		flags []string
	}{{"Plain", 100_000, nil}, {"Race", 5_000, []string{"-race"}}} {
		t.Run(run.name, func(t *testing.T) {
			out, err := simulate(t, build(t, run.flags...), run.seeds, 0)
			require.NoError(t, err, out)
			t.Log(regexp.MustCompile(`\d+ schedules in .*`).FindString(out))
		})
	}
}

// TestPlantedFaults: the simulation finds each of the planted faults. With
// SENDONCE_WRITE=1 the table in docs/planted.md is written anew; SENDONCE_PLANTED
// chooses those with that text in their names.
func TestPlantedFaults(t *testing.T) {
	soak(t)
	build(t) // fills the cache
	found := make([]int, len(planted))
	t.Run("Each", func(t *testing.T) {
		turn := make(chan struct{}, 2) // two at a time: each has one thread
		var wg sync.WaitGroup
		for i, f := range planted {
			if !strings.Contains(f.name, os.Getenv("SENDONCE_PLANTED")) {
				continue
			}
			turn <- struct{}{}
			wg.Go(func() {
				defer func() { <-turn }()
				var err error
				found[i], err = f.schedules(t)
				assert.NoError(t, err, f.name)
			})
		}
		wg.Wait()
	})
	if os.Getenv("SENDONCE_WRITE") == "1" && os.Getenv("SENDONCE_PLANTED") == "" && !t.Failed() {
		require.NoError(t, os.WriteFile(filepath.Join(root, "docs", "planted.md"), table(found), 0o644))
	}
}

// TestPlantedFaultsStand: each of them can still be planted.
func TestPlantedFaultsStand(t *testing.T) {
	for _, f := range planted {
		text, err := os.ReadFile(filepath.Join(root, f.file))
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(text), f.old), "%q in %s: plant it anew", f.old, f.file)
	}
}

func soak(t *testing.T) {
	if os.Getenv("SENDONCE_SIMULATION") == "" {
		t.Skip("set SENDONCE_SIMULATION=1, or make simulation")
	}
}

// build makes the test binary of the library.
func build(t *testing.T, flags ...string) string {
	bin := filepath.Join(t.TempDir(), "library.test")
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-c", "-o", bin}, append(flags, ".")...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return bin
}

func simulate(t *testing.T, bin string, seeds, processes int) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "-test.run=^TestSimulation$", "-test.v", "-test.timeout=0")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), fmt.Sprint("SENDONCE_SEEDS=", seeds), "SENDONCE_SEED=", "SENDONCE_RESULT=")
	if processes > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprint("SENDONCE_SIM_PROCESSES=", processes))
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var failedSchedule = regexp.MustCompile(`schedule (\d+): (.*)`)

// schedules is how many it took to find the fault.
func (f fault) schedules(t *testing.T) (int, error) {
	path, err := filepath.Abs(filepath.Join(root, f.file))
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	if n := bytes.Count(text, []byte(f.old)); n != 1 {
		return 0, fmt.Errorf("%q stands %d times in %s, not once: plant this fault anew", f.old, n, f.file)
	}
	dir := t.TempDir()
	other := filepath.Join(dir, filepath.Base(f.file))
	if err := os.WriteFile(other, bytes.Replace(text, []byte(f.old), []byte(f.new), 1), 0o644); err != nil {
		return 0, err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: other}})
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644); err != nil {
		return 0, err
	}
	bin := filepath.Join(dir, "library.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", bin, ".")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("it can't be built: %w\n%s", err, out)
	}
	defer os.Remove(bin)
	out, err := simulate(t, bin, plantedSeeds, 1)
	m := failedSchedule.FindStringSubmatch(out)
	if err == nil || m == nil {
		return 0, fmt.Errorf("%d schedules have not found it: %v\n%s", plantedSeeds, err, out[:min(len(out), 2000)])
	}
	t.Logf("%s: found by schedule %s: %s", f.name, m[1], m[2])
	return strconv.Atoi(m[1])
}

// table is docs/planted.md.
func table(found []int) []byte {
	var b strings.Builder
	b.WriteString(`# Planted faults

Written by ` + "`SENDONCE_SIMULATION=1 SENDONCE_WRITE=1 go test -run TestPlantedFaults ./simulation`" + ` in internal/integration; see [testing](testing.md#the-simulation-of-the-loop).
Each is the library with one rule left out, and the number of schedules after which the simulation noticed. ` + "`make simulation`" + ` checks that it still does.

| fault | file | schedules |
|---|---|---|
`)
	for i, f := range planted {
		fmt.Fprintf(&b, "| %s | %s | %d |\n", f.name, f.file, found[i])
	}
	return []byte(b.String())
}
