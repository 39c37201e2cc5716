package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

const (
	unitFile = "sendonce-partition@.service"
	program  = "/usr/local/bin/sendonce-partition"
)

// tool finds a program of a package of the distribution.
func tool(t *testing.T, name, from string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		servers.MissingTool(t, name, from)
	}
	return path
}

// process is one that Supervisor would start.
type process struct {
	Name, Command string
	Environment   map[string]string
	StopSignal    int
	StopWait      int
}

// processes has Supervisor's own parser read the file, as it is included from
// conf.d.
func processes(t *testing.T) []process {
	t.Helper()
	script, err := os.ReadFile(tool(t, "supervisord", "supervisor"))
	require.NoError(t, err)
	python := regexp.MustCompile(`^#! *(\S+)`).FindSubmatch(script) // the one that has its modules
	require.NotNil(t, python)
	own, err := filepath.Abs("supervisor.conf")
	require.NoError(t, err)
	conf := filepath.Join(t.TempDir(), "supervisord.conf")
	require.NoError(t, os.WriteFile(conf, []byte("[supervisord]\n[include]\nfiles = "+own+"\n"), 0o600))
	cmd := exec.Command(string(python[1]), "-c", `
import json, sys
from supervisor.options import ServerOptions
options = ServerOptions()
options.realize(["-c", sys.argv[1], "-n"])
print(json.dumps([
    dict(Name=p.name, Command=p.command, Environment=p.environment, StopSignal=p.stopsignal, StopWait=p.stopwaitsecs)
    for g in options.process_group_configs for p in g.process_configs]))
`, conf)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, errs.String())
	var ps []process
	require.NoError(t, json.Unmarshal(out, &ps), string(out))
	return ps
}

func TestSupervisorStartsOneWorkerForEachPartition(t *testing.T) {
	ps := processes(t)
	require.Len(t, ps, 4)
	for k, p := range ps {
		assert.Equal(t, "sendonce-partition-"+strconv.Itoa(k), p.Name)
		assert.Equal(t, program, strings.Fields(p.Command)[0])
		assert.Equal(t, strconv.Itoa(k), p.Environment["WORKER_PARTITION"])
		assert.Equal(t, strconv.Itoa(len(ps)), p.Environment["WORKER_COUNT"])
		assert.Equal(t, int(syscall.SIGTERM), p.StopSignal)
		assert.Equal(t, killedAfter, time.Duration(p.StopWait)*time.Second)
	}
}

// killedAfter is the patience of both files: sends may go on for stopTimeout, and
// then their context ends, and what became of them is recorded.
const killedAfter = stopTimeout + 20*time.Second

func TestSupervisorsWorkersSendEachRowOnce(t *testing.T) {
	pg := servers.Postgres(t)
	var workers []*worker
	db := pg.Open(t, "")
	receivers(t, db, claim.Postgres, 400)
	for _, p := range processes(t) {
		var env []string
		for name, value := range p.Environment {
			env = append(env, name+"="+value)
		}
		workers = append(workers, startWorker(t, append(env, envDSN+"="+pg.DSN), strings.Fields(p.Command)[1:]...))
	}
	allSentOnce(t, db, workers, 400)
}

// verify has systemd judge a unit file whose program is there.
func verify(t *testing.T, change ...string) string {
	t.Helper()
	text, err := os.ReadFile(unitFile)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	copied := filepath.Join(t.TempDir(), strings.Replace(unitFile, "@", "@2", 1))
	change = append(change, program, self)
	require.NoError(t, os.WriteFile(copied, []byte(strings.NewReplacer(change...).Replace(string(text))), 0o600))
	out, err := exec.Command(tool(t, "systemd-analyze", "systemd"), "verify", "--man=no", copied).CombinedOutput()
	var said string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "sendonce") { // and not another unit of this machine
			said += line
		}
	}
	if err != nil {
		said += err.Error()
	}
	return said
}

func TestUnitIsVerified(t *testing.T) {
	assert.Empty(t, verify(t))
	for old, broken := range map[string]string{
		"Restart=always": "Restart=sometimes", "TimeoutStopSec=30": "TimeoutStopSec=soon", "KillSignal=SIGTERM": "KillSignal=SIGNONE", "[Install]": "[Instal]",
		"StartLimitIntervalSec=0": "StartLimitIntervalSecs=0", program: "/nowhere/sendonce-partition",
	} {
		assert.NotEmpty(t, verify(t, old, broken), "the check sees nothing: %s", broken)
	}
}

// setting is the value of a line of the unit file.
func setting(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(unitFile)
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^(?:#   )?`+name+`=(.*)$`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, found, 1, name)
	return found[0][1]
}

func TestUnitsStopInGoodOrder(t *testing.T) {
	assert.Equal(t, strconv.Itoa(int(killedAfter/time.Second)), setting(t, "TimeoutStopSec"))
	assert.Equal(t, "SIGTERM", setting(t, "KillSignal"))
	assert.Equal(t, "always", setting(t, "Restart"))
}

func TestUnitsSendEachRowOnce(t *testing.T) {
	pg := servers.Postgres(t)
	db := pg.Open(t, "")
	receivers(t, db, claim.Postgres, 400)
	count, err := strconv.Atoi(setting(t, "WORKER_COUNT"))
	require.NoError(t, err)
	var workers []*worker
	for i := range count {
		env := strings.ReplaceAll(setting(t, "Environment"), "%i", strconv.Itoa(i))
		args := strings.Fields(setting(t, "ExecStart"))[1:]
		workers = append(workers, startWorker(t, []string{env, "WORKER_COUNT=" + strconv.Itoa(count), envDSN + "=" + pg.DSN}, args...))
	}
	allSentOnce(t, db, workers, 400)
}
