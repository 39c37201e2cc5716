package sendertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
)

func item(key any, attempt int) []sendonce.Item[string] {
	return []sendonce.Item[string]{{Key: key, Attempt: attempt, IdempotencyKey: fmt.Sprint("id-", key)}}
}

// taking is a Sender that takes a second for each call.
var taking = sendonce.SenderFunc[string](func(context.Context, sendonce.Item[string]) error {
	time.Sleep(time.Second)
	return nil
})

func TestRecorderTellsWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		r := New[string](sendonce.SenderFunc[string](func(_ context.Context, it sendonce.Item[string]) error {
			time.Sleep(time.Second)
			if it.Attempt == 1 {
				return sendonce.Permanent(boom)
			}
			return nil
		}))
		start := time.Now()
		require.ErrorIs(t, r.As("a").Send(t.Context(), item(int64(1), 1)), boom)
		require.NoError(t, r.As("b").Send(t.Context(), item(int64(1), 2)))
		sends := r.Sends(1)
		require.Len(t, sends, 2)
		assert.Equal(t, "a", sends[0].Worker)
		assert.Equal(t, "b", sends[1].Worker)
		assert.Equal(t, 2, sends[1].Attempt)
		assert.Equal(t, "id-1", sends[1].IdempotencyKey)
		assert.Equal(t, start.Add(time.Second), sends[0].End)
		assert.Equal(t, start.Add(time.Second), sends[1].Start)
		require.ErrorIs(t, sends[0].Err, boom)
		assert.True(t, sends[1].Accepted())
		assert.Equal(t, 2, r.Count())
		assert.Empty(t, r.MoreThanOnce(), "the first one failed")
		assert.Empty(t, r.Overlaps(), "one ended when the other began")
		assert.Equal(t, []sendonce.Key{2, "x"}, r.Missing([]sendonce.Key{1, 2, "x"}))
		assert.Contains(t, sends[1].String(), `row 1, attempt 2 by "b"`)
	})
}

func TestRecorderFindsOverlapsAndDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New[string](taking)
		var wg sync.WaitGroup
		for i := range 3 { // at 0 s, 0.6 s and 1.2 s: the first and the last don't meet
			wg.Go(func() { assert.NoError(t, r.Send(t.Context(), item("k", 1))) })
			wg.Go(func() { assert.NoError(t, r.Send(t.Context(), item(int64(i), 1))) })
			time.Sleep(600 * time.Millisecond)
		}
		running := r.Overlaps()
		require.Len(t, running, 2, "also while the last one runs")
		wg.Wait()
		require.Len(t, r.Overlaps(), 2)
		assert.Equal(t, running[0], r.Overlaps()[0])
		assert.Len(t, r.MoreThanOnce(), 1)
		assert.Len(t, r.MoreThanOnce()["k"], 3)
	})
}

func TestRecorderAnswersForEachItemOfAGroup(t *testing.T) {
	bad := errors.New("bad")
	r := New[string](sendonce.BatchSenderFunc[string](func(context.Context, []sendonce.Item[string]) error {
		return sendonce.ItemErrors{nil, bad}
	}))
	group := append(append(item("a", 1), item("b", 1)...), item("c", 1)...)
	require.Error(t, r.Send(t.Context(), group))
	assert.True(t, r.Sends("a")[0].Accepted())
	require.ErrorIs(t, r.Sends("b")[0].Err, bad)
	require.ErrorContains(t, r.Sends("c")[0].Err, "no answer")
	assert.Len(t, r.All(), 3)
}

func TestRecorderRecordsSendsThatDoNotReturn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	r, err := NewFile(path, sendonce.SenderFunc[string](func(_ context.Context, it sendonce.Item[string]) error {
		if it.Key == "panic" {
			panic("no way")
		}
		runtime.Goexit()
		return nil
	}))
	require.NoError(t, err)
	assert.PanicsWithValue(t, "no way", func() { _ = r.Send(t.Context(), item("panic", 1)) })
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Send(t.Context(), item("exit", 1)) })
	wg.Wait()
	require.NoError(t, r.Close())
	read, err := Read(path)
	require.NoError(t, err)
	for _, l := range []*Log{r.Log, read} {
		require.ErrorContains(t, l.Sends("panic")[0].Err, "panic: no way")
		require.ErrorContains(t, l.Sends("exit")[0].Err, "exited")
	}
}

func TestFilesAreReadAsTheyWereWritten(t *testing.T) {
	dir := t.TempDir()
	keys := []sendonce.Key{int64(-5), uint64(1 << 63), "text", "no utf-8 \xf8 \x00\n"}
	var paths []string
	for _, worker := range []string{"a", "b"} {
		path := filepath.Join(dir, worker)
		paths = append(paths, path)
		r, err := NewFile[string](path, nil)
		require.NoError(t, err)
		for _, k := range keys {
			require.NoError(t, r.As(worker).Send(t.Context(), item(k, 3)))
		}
		require.NoError(t, r.Close())
		require.NoError(t, New[string](nil).Close())
	}
	l, err := Read(append(paths, filepath.Join(dir, "none"))...)
	require.NoError(t, err)
	assert.Equal(t, 8, l.Count())
	for _, k := range keys {
		sends := l.Sends(k)
		require.Len(t, sends, 2, "key %v", k)
		assert.Equal(t, "b", sends[1].Worker)
		assert.Equal(t, 3, sends[1].Attempt)
		assert.True(t, sends[1].Accepted())
	}
	assert.Len(t, l.MoreThanOnce(), 4)
	assert.Empty(t, l.Missing(keys))
	require.NoError(t, os.WriteFile(paths[0], []byte("{\n"), 0o644))
	_, err = Read(paths...)
	require.ErrorContains(t, err, "line 1")
}

func TestNothingIsSentThatCannotBeRecorded(t *testing.T) {
	called := false
	r, err := NewFile(filepath.Join(t.TempDir(), "log"), sendonce.SenderFunc[string](func(context.Context, sendonce.Item[string]) error {
		called = true
		return nil
	}))
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.ErrorContains(t, r.Send(t.Context(), item("a", 1)), "cannot record")
	assert.False(t, called)
	assert.Zero(t, r.Count())
	_, err = NewFile[string](t.TempDir(), nil)
	require.Error(t, err)
}

// TestFileSurvivesItsProcess kills itself, as a child process, in mid-send.
func TestFileSurvivesItsProcess(t *testing.T) {
	if path := os.Getenv("SENDERTEST_CHILD"); path != "" {
		r, err := NewFile(path, sendonce.SenderFunc[string](func(_ context.Context, it sendonce.Item[string]) error {
			if it.Key == "last" {
				if p, err := os.FindProcess(os.Getpid()); err == nil {
					_ = p.Kill()
				}
				select {}
			}
			return nil
		}))
		require.NoError(t, err)
		_ = r.Send(t.Context(), item("first", 1))
		_ = r.Send(t.Context(), item("last", 1))
		return
	}
	path := filepath.Join(t.TempDir(), "log")
	for range 2 {
		child := exec.Command(os.Args[0], "-test.run=^TestFileSurvivesItsProcess$")
		child.Env = append(os.Environ(), "SENDERTEST_CHILD="+path)
		require.Error(t, child.Run())
	}
	l, err := Read(path)
	require.NoError(t, err)
	require.Len(t, l.Sends("first"), 2)
	assert.True(t, l.Sends("first")[0].Accepted())
	last := l.Sends("last")
	require.Len(t, last, 2)
	assert.True(t, last[0].End.IsZero())
	assert.False(t, last[0].Accepted())
	assert.Equal(t, []sendonce.Key{"last"}, l.Missing([]sendonce.Key{"first", "last"}))
	assert.Empty(t, l.Overlaps(), "a killed sender sends no more")
	assert.Len(t, l.MoreThanOnce(), 1)
}

func TestManyGoroutinesShareARecorder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	r, err := NewFile[string](path, nil)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				assert.NoError(t, r.As(fmt.Sprint(g)).Send(t.Context(), item(int64(g*100+i), 1)))
				r.Count()
			}
		})
	}
	wg.Wait()
	require.NoError(t, r.Close())
	l, err := Read(path)
	require.NoError(t, err)
	for _, l := range []*Log{l, r.Log} {
		assert.Equal(t, 800, l.Count())
		assert.Empty(t, l.MoreThanOnce())
		assert.Empty(t, l.Overlaps())
	}
}
