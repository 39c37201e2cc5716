package mail_test

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/sender/mail"
)

// receive sends a mail and returns what the server got.
func receive(t *testing.T, m mail.Message, item sendonce.Item[string], change ...func(*server)) (letter, *netmail.Message) {
	t.Helper()
	s := start(t, change...)
	require.NoError(t, newSender(t, s, message(m)).Send(t.Context(), []sendonce.Item[string]{item}))
	require.Len(t, s.got(), 1)
	l := s.got()[0]
	parsed, err := netmail.ReadMessage(strings.NewReader(l.text))
	require.NoError(t, err, "%s", l.text)
	return l, parsed
}

func message(m mail.Message) func(*mail.Config[string]) {
	return func(c *mail.Config[string]) {
		c.Message = func(sendonce.Item[string]) (mail.Message, error) { return m, nil }
	}
}

func decoded(t *testing.T, h interface{ Get(string) string }, name string) string {
	t.Helper()
	s, err := new(mime.WordDecoder).DecodeHeader(h.Get(name))
	require.NoError(t, err)
	return s
}

func TestMailIsWhatTheMessageSays(t *testing.T) {
	long := strings.Repeat("Grüße aus Köln, ", 12) + "Ende"
	l, got := receive(t, mail.Message{
		From: "Zoë <zoe@sender.example>", To: []string{"Ann <ann@example.com>", "bob@example.com"},
		Cc: []string{"carl@example.com"}, Bcc: []string{"hidden@example.com"}, Sender: "bounces@sender.example",
		Subject: long, Text: "Grüße,\n.\n..dots\nFrom here\n" + strings.Repeat("x", 2000) + "\n",
		Header: map[string]string{"Reply-To": "zoe@sender.example", "X-Ort": "Köln"},
	}, items[0])
	assert.Equal(t, "bounces@sender.example", l.from)
	assert.Equal(t, []string{"ann@example.com", "bob@example.com", "carl@example.com", "hidden@example.com"}, l.to)
	assert.Equal(t, `"Ann" <ann@example.com>, <bob@example.com>`, got.Header.Get("To"))
	assert.Equal(t, "<carl@example.com>", got.Header.Get("Cc"))
	assert.NotContains(t, l.text, "hidden")
	assert.Equal(t, "Zoë <zoe@sender.example>", decoded(t, got.Header, "From"))
	assert.Equal(t, long, decoded(t, got.Header, "Subject"))
	assert.Equal(t, "zoe@sender.example", got.Header.Get("Reply-To"))
	assert.Equal(t, "Köln", decoded(t, got.Header, "X-Ort"))
	assert.Equal(t, "<0123456789abcdef@sender.example>", got.Header.Get("Message-ID"))
	_, err := got.Header.Date()
	require.NoError(t, err)
	body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
	require.NoError(t, err)
	assert.Equal(t, "Grüße,\n.\n..dots\nFrom here\n"+strings.Repeat("x", 2000)+"\n", strings.ReplaceAll(string(body), "\r\n", "\n"))
	for line := range strings.Lines(l.text) {
		assert.LessOrEqual(t, len(line), 100, "%q", line)
		assert.True(t, strings.HasSuffix(line, "\r\n"), "%q", line)
	}
}

func TestTextAndHTMLAreAlternatives(t *testing.T) {
	_, got := receive(t, mail.Message{From: "a@sender.example", To: []string{"b@example.com"}, Text: "text", HTML: "<p>html</p>\n"}, items[0])
	kind, params, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	require.NoError(t, err)
	assert.Equal(t, "multipart/alternative", kind)
	r := multipart.NewReader(got.Body, params["boundary"])
	for _, want := range []string{"text", "<p>html</p>"} {
		p, err := r.NextPart()
		require.NoError(t, err)
		text, err := io.ReadAll(p)
		require.NoError(t, err)
		assert.Equal(t, want, strings.TrimSpace(string(text)))
	}
	_, err = r.NextPart()
	assert.ErrorIs(t, err, io.EOF)

	_, got = receive(t, mail.Message{From: "a@sender.example", To: []string{"b@example.com"}, HTML: "<p>html</p>\n"}, items[0])
	assert.Equal(t, "text/html; charset=utf-8", got.Header.Get("Content-Type"))
}

// The Message-ID is the same for each try, and safe whatever the key is.
func TestMessageIDIsMadeOfTheIdempotencyKey(t *testing.T) {
	m := mail.Message{From: "a@sender.example", To: []string{"b@example.com"}}
	again := items[0]
	again.Attempt = 4
	_, first := receive(t, m, items[0])
	_, second := receive(t, m, again)
	assert.Equal(t, first.Header.Get("Message-ID"), second.Header.Get("Message-ID"))

	seen := map[string]bool{}
	for _, key := range []string{"a", "a b", "a>b", "\r\n", "ä", strings.Repeat("x", 500)} {
		_, got := receive(t, m, sendonce.Item[string]{IdempotencyKey: key})
		id := got.Header.Get("Message-ID")
		assert.Regexp(t, `^<[A-Za-z0-9_-]+@sender\.example>$`, id)
		assert.False(t, seen[id])
		seen[id] = true
	}
	s := start(t)
	require.NoError(t, newSender(t, s, func(c *mail.Config[string]) { c.Domain = "ids.example" }).Send(t.Context(), items))
	assert.Contains(t, s.got()[0].text, "Message-ID: <0123456789abcdef@ids.example>")
}

func TestRawMailIsSentAsItIs(t *testing.T) {
	m := mail.Message{From: "a@sender.example", To: []string{"b@example.com"}, Sender: "<>"}
	m.Raw = []byte("From: x@sender.example\r\nSubject: hi\r\n\r\nbody\n.\nafter the dot\rlone\r\n")
	l, got := receive(t, m, items[0])
	assert.Empty(t, l.from)
	assert.Equal(t, "x@sender.example", got.Header.Get("From"))
	assert.Equal(t, "<0123456789abcdef@sender.example>", got.Header.Get("Message-ID"))
	assert.True(t, strings.HasSuffix(l.text, "\r\n\r\nbody\r\n.\r\nafter the dot\r\nlone\r\n"), "%q", l.text)

	m.Raw = []byte("Message-ID: <mine@sender.example>\nDate: Mon, 02 Jan 2006 15:04:05 -0700\n\nbody")
	l, got = receive(t, m, items[0])
	assert.Equal(t, "<mine@sender.example>", got.Header.Get("Message-ID"))
	assert.Equal(t, 1, strings.Count(l.text, "Message-ID"))
	assert.Equal(t, 1, strings.Count(l.text, "Date:"))
}

// What could say more than it should, or to somebody else, is refused before a
// word is said to the server.
func TestInjectionIsRefused(t *testing.T) {
	good := mail.Message{From: "a@sender.example", To: []string{"b@example.com"}, Subject: "s"}
	tests := map[string]func(*mail.Message){
		"line break in To":       func(m *mail.Message) { m.To = []string{"b@example.com\r\nRCPT TO:<c@example.com>"} },
		"line break in a name":   func(m *mail.Message) { m.To = []string{"\"B\nBcc: c@example.com\" <b@example.com>"} },
		"line break in Cc":       func(m *mail.Message) { m.Cc = []string{"b@example.com\n"} },
		"line break in From":     func(m *mail.Message) { m.From = "a@sender.example\rX: y" },
		"line break in Sender":   func(m *mail.Message) { m.Sender = "a@sender.example\r\nDATA" },
		"line break in Subject":  func(m *mail.Message) { m.Subject = "s\r\nBcc: c@example.com" },
		"NUL in Subject":         func(m *mail.Message) { m.Subject = "s\x00" },
		"line break in a header": func(m *mail.Message) { m.Header = map[string]string{"X": "y\nBcc: c@example.com"} },
		"a header's name":        func(m *mail.Message) { m.Header = map[string]string{"X: y\nBcc": "c@example.com"} },
		"no name":                func(m *mail.Message) { m.Header = map[string]string{"": "c@example.com"} },
		"a header of ours":       func(m *mail.Message) { m.Header = map[string]string{"bcc": "c@example.com"} },
		"two addresses":          func(m *mail.Message) { m.To = []string{"b@example.com, c@example.com"} },
		"no address":             func(m *mail.Message) { m.To = []string{"nobody"} },
		"no receiver":            func(m *mail.Message) { m.To = nil },
		"no author":              func(m *mail.Message) { m.From = "" },
		"raw and more":           func(m *mail.Message) { m.Raw = []byte("X: y\n\nz") },
		"raw without headers":    func(m *mail.Message) { m.Raw, m.Subject = []byte("\xff\xfe"), "" },
	}
	s := start(t)
	for name, change := range tests {
		m := good
		change(&m)
		got := try(t, sendonce.AtMostOnce, newSender(t, s, message(m)))
		assert.Equal(t, sendonce.Dead, got.outcome, "%s: %v", name, got.err)
	}
	err := newSender(t, s, message(good)).Send(t.Context(), []sendonce.Item[string]{{}})
	require.ErrorContains(t, err, "no idempotency key")
	failing := func(c *mail.Config[string]) {
		c.Message = func(sendonce.Item[string]) (mail.Message, error) { return good, errors.New("no template") }
	}
	assert.Equal(t, sendonce.Dead, try(t, sendonce.AtMostOnce, newSender(t, s, failing)).outcome)
	assert.Zero(t, s.connections())
}

// A local part that needs quotes gets them: else its end would be where it says.
func TestAddressesAreQuoted(t *testing.T) {
	l, _ := receive(t, mail.Message{From: "a@sender.example", To: []string{`"b> SIZE=1 c"@example.com`}}, items[0])
	require.Len(t, l.to, 1)
	assert.Contains(t, l.to[0], "b> SIZE=1 c")
	assert.True(t, strings.HasSuffix(l.to[0], "@example.com"))
}

func TestAddressesThatAreNotASCII(t *testing.T) {
	m := mail.Message{From: "a@sender.example", To: []string{"jörg@example.com"}}
	l, _ := receive(t, m, items[0], func(s *server) { s.EnableSMTPUTF8 = true })
	assert.Equal(t, []string{"jörg@example.com"}, l.to)

	s := start(t)
	got := try(t, sendonce.AtMostOnce, newSender(t, s, message(m)))
	assert.Equal(t, sendonce.Dead, got.outcome)
	require.ErrorContains(t, got.err, "SMTPUTF8")
}
