package main

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/mail"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// What the mail server does to its clients.
const (
	deferShare  = 0.01  // addresses refused for now, at their first try only
	refuseShare = 0.002 // addresses refused for good

	// answerDelay passes between accepting a mail and saying so; real servers take
	// as long, and longer. A worker that dies in it leaves a mail that was accepted
	// and is not recorded.
	answerDelay = 20 * time.Millisecond
)

// mailServer is a real SMTP server on the loopback interface.
type mailServer struct {
	addr   string
	server *smtp.Server
	ledger *ledger
	seed   uint64

	mu      sync.Mutex
	tried   map[string]bool // deferred once: not again
	waiting map[string]bool // deferred, and not yet accepted
	counted progress
	seen    map[string]bool // Message-IDs
	err     error           // the log could not be written
}

// progress is what the server has seen so far.
type progress struct {
	sent     int // mails, second ones left out
	retrying int
	dead     int
}

func startMailServer(l *ledger, seed uint64) (*mailServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot start the mail server on the loopback interface: %w", err)
	}
	s := &mailServer{addr: listener.Addr().String(), ledger: l, seed: seed, tried: map[string]bool{}, waiting: map[string]bool{}, seen: map[string]bool{}}
	s.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{server: s, worker: c.Hostname()}, nil
	}))
	s.server.Domain = "mx.quickstart.example"
	s.server.EnableSMTPUTF8 = true
	s.server.MaxMessageBytes = 1 << 20
	s.server.ErrorLog = log.New(io.Discard, "", 0) // a killed worker's connections end in errors
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

func (s *mailServer) close() { _ = s.server.Close() }

func (s *mailServer) progress() (progress, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.counted
	p.retrying = len(s.waiting)
	return p, s.err
}

// record writes the log first, so that what the client is told is in it.
func (s *mailServer) record(e entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ledger.add(e); err != nil {
		s.err = fmt.Errorf("cannot write the mail server's log: %w", err)
		return err
	}
	switch e.answer {
	case accepted:
		delete(s.waiting, e.address)
		if !s.seen[e.messageID] {
			s.seen[e.messageID] = true
			s.counted.sent++
		}
	case deferred:
		s.waiting[e.address] = true
	case refused:
		s.counted.dead++
	}
	return nil
}

// fate draws what happens to an address: the same for each run with one seed.
func (s *mailServer) fate(address string) string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, address)
	switch x := rand.New(rand.NewPCG(s.seed, h.Sum64())).Float64(); {
	case x < refuseShare:
		return refused
	case x < refuseShare+deferShare:
		return deferred
	}
	return accepted
}

// answer is the fate of an address, at this try.
func (s *mailServer) answer(address string) string {
	fate := s.fate(address)
	if fate != deferred {
		return fate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried[address] {
		return accepted
	}
	s.tried[address] = true
	return deferred
}

// session is one connection. Its methods are called one after the other.
type session struct {
	server *mailServer
	worker string // the name by EHLO
	to     string
}

func (s *session) Mail(string, *smtp.MailOptions) error { return nil }
func (s *session) Reset()                               { s.to = "" }
func (s *session) Logout() error                        { return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	switch s.server.answer(to) {
	case refused:
		if err := s.server.record(entry{refused, s.worker, to, ""}); err != nil {
			return err
		}
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such mailbox"}
	case deferred:
		if err := s.server.record(entry{deferred, s.worker, to, ""}); err != nil {
			return err
		}
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "we do not know you yet, try again later"}
	}
	s.to = to
	return nil
}

func (s *session) Data(r io.Reader) error {
	// A client that dies in the middle gives an error here: nothing was received.
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	message, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "this is no mail"}
	}
	id := strings.Trim(message.Header.Get("Message-ID"), "<> ")
	if err := s.server.record(entry{accepted, s.worker, s.to, id}); err != nil {
		return err
	}
	time.Sleep(answerDelay)
	return nil
}
