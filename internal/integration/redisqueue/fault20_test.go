package redisqueue

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
)

// docs/faults.md, 20: out in the order in which Add returned, for 200 items within a
// moment, of two producers, two of them equal. Producers' clocks don't matter, as
// nothing of them is sent; so the only clock there is, the server's, is set back.
func TestFault20_OutInTheOrderOfAdd(t *testing.T) {
	libs, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(libs) == 0 {
		servers.MissingTool(t, "libfaketime.so.1", "libfaketime")
	}
	clock := filepath.Join(t.TempDir(), "clock")
	set := func(offset string) {
		require.NoError(t, os.WriteFile(clock+".new", []byte(offset), 0o644))
		require.NoError(t, os.Rename(clock+".new", clock))
	}
	set("+0")
	require.NoError(t, os.Chmod(filepath.Dir(clock), 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(clock)), 0o755))
	r := servers.StartRedis(t, servers.Options{Local: true, Env: []string{
		"LD_PRELOAD=" + libs[0], "FAKETIME_TIMESTAMP_FILE=" + clock, "FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
	}})
	a, b := open[string](t, r.Client(t), r.Prefix, optionsNone), open[string](t, r.Client(t), r.Prefix, optionsNone)
	before, err := r.Client(t).Time(t.Context()).Result()
	require.NoError(t, err)

	var want, ids []string
	for i := 1; i <= 200; i++ {
		v := fmt.Sprint("job:", i)
		if i == 9 {
			v = "job:8" // of equal bytes, and another item all the same
		}
		if i == 101 {
			set("-5s")
			now, err := r.Client(t).Time(t.Context()).Result()
			require.NoError(t, err)
			require.Less(t, now, before, "VOID: the server's clock was not set back")
		}
		q := a
		if i%2 == 0 {
			q = b
		}
		ids = append(ids, add(t, q, item{Key: "k", Value: v}))
		want = append(want, v)
	}
	require.IsIncreasing(t, ids)
	require.Equal(t, want, drain(t, a))
}

// Without a key there is no order to rely on, but what waits longer goes first.
func TestFault20_WithoutAKeyTheOldestGoFirst(t *testing.T) {
	q, _ := newQueue(t)
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprint("job:", i))
		add(t, q, item{Value: want[i], At: time.Now().Add(-time.Duration(i) * time.Hour)})
	}
	assert.Equal(t, want, drain(t, q))
}
