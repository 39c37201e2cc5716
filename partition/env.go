package partition

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The environment variables that FromEnv reads.
const (
	EnvPartition = "WORKER_PARTITION"
	EnvCount     = "WORKER_COUNT"
)

// FromEnv returns a Partitioner for a process that is number WORKER_PARTITION,
// from 0, of WORKER_COUNT. If WORKER_PARTITION is not set, or empty, the number is
// the ordinal at the end of the host's name, which the pods of a Kubernetes
// StatefulSet have ("mailer-3" is number 3). There is no default for
// WORKER_COUNT: it must be the number of replicas. The error names the variable
// and what it holds.
func FromEnv() (Partitioner, error) { return fromEnv(os.LookupEnv, os.Hostname) }

func fromEnv(lookup func(string) (string, bool), hostname func() (string, error)) (Partitioner, error) {
	count, ok := lookup(EnvCount)
	if !ok || strings.TrimSpace(count) == "" {
		return nil, fmt.Errorf("sendonce: %s is not set: it must be the number of workers", EnvCount)
	}
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if err != nil || n < 1 || n > MaxCount {
		return nil, fmt.Errorf("sendonce: %s is %q: it must be the number of workers, from 1 to %d", EnvCount, count, MaxCount)
	}
	if own, ok := lookup(EnvPartition); ok && strings.TrimSpace(own) != "" {
		k, err := strconv.Atoi(strings.TrimSpace(own))
		if err != nil || k < 0 || k >= n {
			return nil, fmt.Errorf("sendonce: %s is %q: it must be a number from 0 to %d, as %s is %q", EnvPartition, own, n-1, EnvCount, count)
		}
		return Static(k, n)
	}
	host, err := hostname()
	if err != nil {
		return nil, fmt.Errorf("sendonce: %s is not set, and the host's name can't be read: %w", EnvPartition, err)
	}
	k, ok := ordinal(host)
	if !ok || k >= n {
		return nil, fmt.Errorf("sendonce: %s is not set, and the host's name %q does not end in a number from 0 to %d (\"name-3\"), as %s is %q",
			EnvPartition, host, n-1, EnvCount, count)
	}
	return Static(k, n)
}

// ordinal is the number at the end of the first label of a host's name. Leading
// zeros are no ordinal.
func ordinal(host string) (int, bool) {
	host, _, _ = strings.Cut(host, ".")
	dash := strings.LastIndexByte(host, '-')
	if dash < 1 {
		return 0, false
	}
	digits := host[dash+1:]
	k, err := strconv.Atoi(digits)
	if err != nil || k < 0 || strconv.Itoa(k) != digits {
		return 0, false
	}
	return k, true
}
