package servers

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func childAttr(as *account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if as != nil {
		attr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	return attr
}

// processes reads the process table.
func processes() []entry {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	table := make([]entry, 0, len(stats))
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// "pid (name) state parent ...", and the name may hold anything.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			table = append(table, entry{pid, parent, fields[0] == "Z"})
		}
	}
	return table
}

// workingIn returns the processes whose working folder is dir or below it.
func workingIn(dir string) []int {
	var pids []int
	for _, e := range processes() {
		cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(e.pid), "cwd"))
		if err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/")) {
			pids = append(pids, e.pid)
		}
	}
	return pids
}
