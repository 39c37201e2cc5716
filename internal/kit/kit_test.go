package kit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/kit"
)

func TestNamesArePrintableShortAndDifferent(t *testing.T) {
	for key, want := range map[string]string{
		"ann@example.com": "ann@example.com", "a b": "a b", "é": "é", "%": "%25", "a{b}": "a%7Bb%7D", "\x00\xff\n": "%00%FF%0A",
	} {
		assert.Equal(t, want, kit.Name(key, "{}"))
	}
	seen := map[string]string{}
	long := strings.Repeat("x", 255)
	for _, key := range []string{long, long + "x", long + "y", long[:253] + "%", strings.Repeat("\x00", 100), "%sha256:", long + "\xff"} {
		name := kit.Name(key, "")
		assert.LessOrEqual(t, len(name), kit.MaxName)
		assert.NotContains(t, seen, name)
		seen[name] = key
	}
	assert.Equal(t, long, kit.Name(long, ""))
}

func TestAwaitObeysItsContext(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(enough) })
	forever := make(chan struct{})
	defer close(forever)
	_, err := kit.Await(ctx, func() (int, error) {
		<-forever
		return 1, nil
	})
	require.ErrorIs(t, err, enough)
	_, err = kit.Await(ctx, func() (int, error) {
		t.Error("called on a context that has ended")
		return 1, nil
	})
	require.ErrorIs(t, err, enough)
	n, err := kit.Await(t.Context(), func() (int, error) { return 7, nil })
	require.NoError(t, err)
	assert.Equal(t, 7, n)
}
