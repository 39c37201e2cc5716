package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

// testServer starts a mail server and returns it with a way to read its log.
func testServer(t *testing.T, seed uint64) (*mailServer, func() []entry) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLedger(path)
	require.NoError(t, err)
	s, err := startMailServer(l, seed)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.close()
		_ = l.file.Close()
	})
	return s, func() []entry {
		file, err := os.Open(path)
		require.NoError(t, err)
		defer file.Close()
		entries, err := readLedger(file)
		require.NoError(t, err)
		return entries
	}
}

func mailTo(address string) sendonce.Item[Mail] {
	return sendonce.Item[Mail]{Key: int64(7), Value: Mail{Address: address, Name: `Jörg "J" Weiß`}, Attempt: 1, IdempotencyKey: strings.Repeat("ab", 16)}
}

// addressWith finds an address with this fate.
func addressWith(t *testing.T, s *mailServer, fate string) string {
	t.Helper()
	for i := range 100_000 {
		if a := fmt.Sprintf("p%d@post.example", i); s.fate(a) == fate {
			return a
		}
	}
	t.Fatal("no address has the fate ", fate)
	return ""
}

// outcomeOf is what a Dispatcher makes of one answer of the sender.
func outcomeOf(t *testing.T, delivery sendonce.Delivery, answer error) sendonce.Outcome {
	t.Helper()
	q := memclaim.New[int](nil)
	require.NoError(t, q.Add(memclaim.Row[int]{Key: int64(1)}))
	outcomes := make(chan sendonce.Outcome, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d, err := sendonce.New(q, sendonce.SenderFunc[int](func(context.Context, sendonce.Item[int]) error { return answer }), sendonce.Config{
		Delivery: delivery,
		Hooks: sendonce.Hooks{Sent: func(_ sendonce.Key, o sendonce.Outcome, _ int, _ time.Duration, _ error) {
			outcomes <- o
			cancel()
		}},
	})
	require.NoError(t, err)
	_ = d.Run(ctx)
	return <-outcomes
}

func TestDeliver(t *testing.T) {
	s, log := testServer(t, 1)
	m := newMailer(s.addr, "worker-7", 2)
	defer m.close()
	address := addressWith(t, s, accepted)
	item := mailTo(address)
	require.NoError(t, m.deliver(t.Context(), item))
	require.NoError(t, m.deliver(t.Context(), item), "on the connection that was kept")
	want := entry{accepted, "worker-7", address, strings.Repeat("ab", 16) + "@sender.example"}
	assert.Equal(t, []entry{want, want}, log())
	assert.Len(t, m.idle, 1, "one connection was enough")

	p, err := s.progress()
	require.NoError(t, err)
	assert.Equal(t, progress{sent: 1}, p, "a second mail with one Message-ID is not progress")
}

func TestDeliverInternational(t *testing.T) {
	s, log := testServer(t, 1)
	m := newMailer(s.addr, "worker-1", 1)
	defer m.close()
	got, err := normalise("Jörg", "jörg@bücher.example")
	require.NoError(t, err)
	require.NoError(t, m.deliver(t.Context(), mailTo(got.Address)))
	require.Len(t, log(), 1)
	assert.Equal(t, "jörg@xn--bcher-kva.example", log()[0].address)
}

func TestServerRefuses(t *testing.T) {
	s, log := testServer(t, 1)
	m := newMailer(s.addr, "worker-1", 1)
	defer m.close()
	now, good := addressWith(t, s, deferred), addressWith(t, s, refused)

	err := m.deliver(t.Context(), mailTo(now))
	require.ErrorContains(t, err, "451")
	assert.Equal(t, sendonce.Retry, outcomeOf(t, sendonce.AtMostOnce, err), "it was surely not sent")
	p, _ := s.progress()
	assert.Equal(t, progress{retrying: 1}, p)
	require.NoError(t, m.deliver(t.Context(), mailTo(now)), "only the first try is refused")

	for range 2 {
		err = m.deliver(t.Context(), mailTo(good))
		require.ErrorContains(t, err, "550")
		assert.Equal(t, sendonce.Dead, outcomeOf(t, sendonce.AtLeastOnce, err))
	}
	assert.Len(t, m.idle, 1, "the connection lives on after a refusal")
	var answers []string
	for _, e := range log() {
		answers = append(answers, e.answer)
	}
	assert.Equal(t, []string{deferred, accepted, refused, refused}, answers)
}

func TestFatesAreDrawnBySeed(t *testing.T) {
	a, b := &mailServer{seed: 1}, &mailServer{seed: 2}
	n, differ := map[string]int{}, 0
	for i := range 20_000 {
		address := fmt.Sprintf("p%d@post.example", i)
		n[a.fate(address)]++
		if a.fate(address) != b.fate(address) {
			differ++
		}
	}
	assert.InDelta(t, 200, n[deferred], 60)
	assert.InDelta(t, 40, n[refused], 25)
	assert.Positive(t, differ)
}

func TestNoMailFromAnAddressThatIsNone(t *testing.T) {
	err := newMailer("127.0.0.1:1", "worker-1", 1).deliver(t.Context(), mailTo("not an address"))
	assert.Equal(t, sendonce.Dead, outcomeOf(t, sendonce.AtLeastOnce, err))
}

func TestServerThatIsNotThere(t *testing.T) {
	err := newMailer("127.0.0.1:1", "worker-1", 1).deliver(t.Context(), mailTo("a@post.example"))
	require.Error(t, err)
	assert.Equal(t, sendonce.Retry, outcomeOf(t, sendonce.AtMostOnce, err), "it was surely not sent")
}

func TestConnectionThatWaitedTooLong(t *testing.T) {
	s, log := testServer(t, 1)
	m := newMailer(s.addr, "worker-1", 1)
	defer m.close()
	address := addressWith(t, s, accepted)
	require.NoError(t, m.deliver(t.Context(), mailTo(address)))
	l := <-m.idle
	_ = l.conn.Close()
	m.idle <- l
	require.NoError(t, m.deliver(t.Context(), mailTo(address)), "a new connection is made at once")
	assert.Len(t, log(), 2)
}

// scripted starts an SMTP server that cuts the connection when a line begins
// with a word, or falls silent there; at "" it is silent from the beginning.
func scripted(t *testing.T, word string, silent bool) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serveScript(conn, word)
				if silent {
					_, _ = io.Copy(io.Discard, conn)
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func serveScript(conn net.Conn, word string) {
	if word == "" {
		return
	}
	fmt.Fprint(conn, "220 test\r\n")
	lines, inData := bufio.NewScanner(conn), false
	for lines.Scan() {
		line := lines.Text()
		switch {
		case inData && line != ".":
		case strings.HasPrefix(line, word):
			return
		case line == "DATA":
			inData = true
			fmt.Fprint(conn, "354 go\r\n")
		case line == "." && word == "refuse":
			inData = false
			fmt.Fprint(conn, "452 4.3.1 full\r\n")
		default:
			inData = false
			fmt.Fprint(conn, "250 ok\r\n")
		}
	}
}

func TestBrokenConnections(t *testing.T) {
	for _, c := range []struct {
		cutAt string
		want  sendonce.Outcome // under AtMostOnce, where what is not known is Unknown
	}{
		{"EHLO", sendonce.Retry},
		{"MAIL", sendonce.Retry},
		{"RCPT", sendonce.Retry},
		{"DATA", sendonce.Retry},
		{".", sendonce.Unknown},    // the final dot is out, no answer
		{"refuse", sendonce.Retry}, // the answer to the final dot is 4xx
	} {
		t.Run(c.cutAt, func(t *testing.T) {
			m := newMailer(scripted(t, c.cutAt, false), "worker-1", 1)
			defer m.close()
			err := m.deliver(t.Context(), mailTo("a@post.example"))
			require.Error(t, err)
			assert.Equal(t, c.want, outcomeOf(t, sendonce.AtMostOnce, err), err)
		})
	}
}

func TestDeliverObeysItsContext(t *testing.T) {
	for _, silentAt := range []string{"", "EHLO", "MAIL", "DATA", "."} {
		t.Run("silent at "+silentAt, func(t *testing.T) {
			m := newMailer(scripted(t, silentAt, true), "worker-1", 1)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			begin := time.Now()
			err := m.deliver(ctx, mailTo("a@post.example"))
			require.Error(t, err)
			assert.Less(t, time.Since(begin), 5*time.Second)
			assert.Empty(t, m.idle, "a connection that waits for an answer is not used again")
		})
	}
}

func TestHalfAMessageIsNoMail(t *testing.T) {
	s, log := testServer(t, 1)
	conn, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	address := addressWith(t, s, accepted)
	buf := make([]byte, 4096)
	for _, line := range []string{"EHLO worker-1", "MAIL FROM:<a@b.example>", "RCPT TO:<" + address + ">", "DATA", "Message-ID: <x@y>\r\n\r\nhalf"} {
		_, err = fmt.Fprint(conn, line+"\r\n")
		require.NoError(t, err)
		if !strings.HasPrefix(line, "Message-ID") {
			_, err = conn.Read(buf)
			require.NoError(t, err)
		}
	}
	require.NoError(t, conn.Close())
	// The server notices the end of the connection by itself; a whole mail after
	// it shows that the log is written.
	m := newMailer(s.addr, "worker-1", 1)
	defer m.close()
	require.NoError(t, m.deliver(t.Context(), mailTo(address)))
	for _, e := range log() {
		assert.NotEqual(t, "x@y", e.messageID)
	}
}

func TestLogThatCannotBeWritten(t *testing.T) {
	s, _ := testServer(t, 1)
	require.NoError(t, s.ledger.file.Close())
	m := newMailer(s.addr, "worker-1", 1)
	defer m.close()
	require.Error(t, m.deliver(t.Context(), mailTo(addressWith(t, s, accepted))), "the client is not told that it was accepted")
	_, err := s.progress()
	assert.Error(t, err)
	assert.False(t, errors.Is(err, context.Canceled))
}
