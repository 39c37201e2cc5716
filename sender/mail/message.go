package mail

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"mime"
	"mime/quotedprintable"
	netmail "net/mail"
	"slices"
	"strings"
	"time"
)

// Message is a mail. Addresses may have names: "Ann <ann@example.com>". Mails with
// attachments are made by other packages and given as Raw.
type Message struct {
	// From is the author. Needed.
	From string

	// To, Cc and Bcc are the receivers, one at least. No header names those in Bcc.
	To, Cc, Bcc []string

	// Sender is the address that failures are reported to. "<>": they are not.
	// Default: that of From.
	Sender string

	Subject string

	// Text and HTML are the body. With both, readers choose.
	Text, HTML string

	// Header has further headers, such as Reply-To and List-Unsubscribe.
	Header map[string]string

	// Raw, if not empty, is the whole mail: headers, an empty line and the body.
	// It is sent as it is, save that lines end as they must, and that Message-ID
	// and Date are added where there is none: one of your own must be the same for
	// each try. Subject, Text, HTML and Header are then empty; From, To, Cc and Bcc
	// say where it goes.
	Raw []byte
}

// envelope is a mail as it is spoken to a server.
type envelope struct {
	from string
	to   []string
	text []byte // lines end in LF
	utf8 bool   // an address is not ASCII
}

// compose makes a mail with this idempotency key. The domain may be empty.
func (m Message) compose(key, domain string) (*envelope, error) {
	from, err := address(m.From)
	if err != nil {
		return nil, fmt.Errorf("the address in From: %w", err)
	}
	e := &envelope{from: bare(from)}
	switch m.Sender {
	case "":
	case "<>":
		e.from = ""
	default:
		sender, err := address(m.Sender)
		if err != nil {
			return nil, fmt.Errorf("Sender: %w", err)
		}
		e.from = bare(sender)
	}
	lists := map[string][]string{}
	for name, list := range map[string][]string{"To": m.To, "Cc": m.Cc, "Bcc": m.Bcc} {
		for _, text := range list {
			a, err := address(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			lists[name] = append(lists[name], a.String())
		}
	}
	for _, list := range [][]string{m.To, m.Cc, m.Bcc} {
		for _, text := range list {
			a, _ := address(text)
			e.to = append(e.to, bare(a))
		}
	}
	if len(e.to) == 0 {
		return nil, errors.New("no receiver: To, Cc and Bcc are empty")
	}
	e.utf8 = !ascii(e.from + strings.Join(e.to, ""))
	if domain == "" {
		domain = from.Address[strings.LastIndexByte(from.Address, '@')+1:]
	}
	id, err := messageID(key, domain)
	if err != nil {
		return nil, err
	}
	if len(m.Raw) > 0 {
		e.text, err = m.raw(id)
	} else {
		e.text, err = m.render(id, from, lists)
	}
	return e, err
}

// address refuses whatever could end a line, or the address before its end.
func address(text string) (*netmail.Address, error) {
	if i := strings.IndexFunc(text, control); i >= 0 {
		return nil, fmt.Errorf("address %q has a line break or another control character", text)
	}
	a, err := netmail.ParseAddress(text)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", text, err)
	}
	return a, nil
}

func control(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// bare is an address without its name and brackets, quoted where it must be.
func bare(a *netmail.Address) string {
	s := (&netmail.Address{Address: a.Address}).String()
	return strings.TrimSuffix(strings.TrimPrefix(s, "<"), ">")
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 0x7e }) < 0
}

// messageID has nothing in it that changes from one try to the next.
func messageID(key, domain string) (string, error) {
	if key == "" {
		return "", errors.New("the item has no idempotency key to make a Message-ID of")
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
	}
	if len(key) > 128 || strings.IndexFunc(key, func(r rune) bool { return !plain(r) }) >= 0 {
		sum := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(sum[:16])
	}
	return "<" + key + "@" + domain + ">", nil
}

// raw is the caller's own mail.
func (m Message) raw(id string) ([]byte, error) {
	if m.Subject != "" || m.Text != "" || m.HTML != "" || len(m.Header) > 0 {
		return nil, errors.New("a mail with Raw has Subject, Text, HTML or Header too")
	}
	// A CR by itself ends a line for some servers and not for others.
	text := bytes.ReplaceAll(m.Raw, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	parsed, err := netmail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("raw mail: %w", err)
	}
	var b bytes.Buffer
	if parsed.Header.Get("Message-Id") == "" {
		header(&b, "Message-ID", id)
	}
	if parsed.Header.Get("Date") == "" {
		header(&b, "Date", date())
	}
	b.Write(text)
	return b.Bytes(), nil
}

func date() string { return time.Now().Format(time.RFC1123Z) }

// ours are the headers that fields of Message are for.
var ours = []string{"From", "To", "Cc", "Bcc", "Subject", "Message-Id", "Mime-Version", "Content-Type", "Content-Transfer-Encoding"}

// render writes a mail of text, HTML or both.
func (m Message) render(id string, from *netmail.Address, lists map[string][]string) ([]byte, error) {
	var b bytes.Buffer
	header(&b, "From", from.String())
	for _, name := range []string{"To", "Cc"} {
		if len(lists[name]) > 0 {
			header(&b, name, strings.Join(lists[name], ", "))
		}
	}
	if strings.IndexFunc(m.Subject, control) >= 0 {
		return nil, fmt.Errorf("the subject %q has a line break or another control character", m.Subject)
	}
	header(&b, "Subject", mime.QEncoding.Encode("utf-8", m.Subject))
	header(&b, "Message-ID", id)
	dated := false
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		value := m.Header[name]
		if err := checkHeader(name, value); err != nil {
			return nil, err
		}
		dated = dated || strings.EqualFold(name, "Date")
		header(&b, name, mime.QEncoding.Encode("utf-8", value))
	}
	if !dated {
		header(&b, "Date", date())
	}
	header(&b, "MIME-Version", "1.0")
	switch {
	case m.HTML == "":
		part(&b, "text/plain", m.Text)
	case m.Text == "":
		part(&b, "text/html", m.HTML)
	default:
		// Quoted-printable text has no line that begins so.
		sum := sha256.Sum256([]byte(id))
		boundary := "=_" + hex.EncodeToString(sum[:12])
		header(&b, "Content-Type", "multipart/alternative; boundary=\""+boundary+"\"")
		fmt.Fprintf(&b, "\n--%s\n", boundary)
		part(&b, "text/plain", m.Text)
		fmt.Fprintf(&b, "\n--%s\n", boundary)
		part(&b, "text/html", m.HTML)
		fmt.Fprintf(&b, "\n--%s--\n", boundary)
	}
	return b.Bytes(), nil
}

func checkHeader(name, value string) error {
	if name == "" || strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }) >= 0 {
		return fmt.Errorf("%q can't be the name of a header", name)
	}
	if slices.ContainsFunc(ours, func(s string) bool { return strings.EqualFold(s, name) }) {
		return fmt.Errorf("header %s is made of the fields of Message", name)
	}
	if strings.IndexFunc(value, control) >= 0 {
		return fmt.Errorf("header %s, %q, has a line break or another control character", name, value)
	}
	return nil
}

// header writes a header, folded between words so that lines stay short.
func header(b *bytes.Buffer, name, value string) {
	b.WriteString(name + ":")
	width := len(name) + 1
	for word := range strings.SplitSeq(value, " ") {
		if width+1+len(word) > 76 && word != "" && width > len(name)+1 {
			b.WriteString("\n")
			width = 0
		}
		b.WriteString(" " + word)
		width += 1 + len(word)
	}
	b.WriteString("\n")
}

// part writes the headers and the text of a part.
func part(b *bytes.Buffer, contentType, text string) {
	header(b, "Content-Type", contentType+"; charset=utf-8")
	header(b, "Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\n")
	var body bytes.Buffer
	w := quotedprintable.NewWriter(&body)
	_, _ = w.Write([]byte(text)) // to memory
	_ = w.Close()
	b.Write(bytes.ReplaceAll(body.Bytes(), []byte("\r\n"), []byte("\n")))
	if !strings.HasSuffix(text, "\n") {
		b.WriteString("\n")
	}
}
