package servers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy is a TCP proxy between the library and a server that can break the line.
// Its methods are for one goroutine at a time, and act on connections that are
// open as well as on new ones, unless they say otherwise.
type Proxy struct {
	// Addr is the address to use instead of the server's: see Database.At.
	Addr string

	proxy *toxiproxy.Proxy
}

// NewProxy starts a proxy before the server at the address. It ends with the
// test.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	nobody := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()) // no HTTP server: it only holds the logger
	p := toxiproxy.NewProxy(nobody, t.Name(), "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		t.Fatalf("servers: start a proxy: %v", err)
	}
	t.Cleanup(func() {
		p.Toxics.ResetToxics(t.Context()) // what waits in a toxic would stay for ever
		p.Stop()
	})
	return &Proxy{Addr: p.Listen, proxy: p}
}

// LoseReplies lets statements through and loses what the server answers: it has
// acted, and the client doesn't know. Use the connection twice with the statement
// before: else what is lost may be the reply to its preparation, or to the
// driver's look whether the connection lives.
func (p *Proxy) LoseReplies(t testing.TB) {
	t.Helper()
	p.toxic(t, "downstream", "timeout", "timeout", 0)
}

// BlackHole swallows everything in both directions; the connections stay open.
func (p *Proxy) BlackHole(t testing.TB) {
	t.Helper()
	p.toxic(t, "upstream", "timeout", "timeout", 0)
	p.toxic(t, "downstream", "timeout", "timeout", 0)
}

// Delay makes each answer late.
func (p *Proxy) Delay(t testing.TB, by time.Duration) {
	t.Helper()
	p.toxic(t, "downstream", "latency", "latency", by.Milliseconds())
}

// CutAfter ends each connection when it has carried so many more bytes from the
// server: in the middle of a reply.
func (p *Proxy) CutAfter(t testing.TB, bytes int64) {
	t.Helper()
	p.toxic(t, "downstream", "limit_data", "bytes", bytes)
}

// Heal ends LoseReplies, BlackHole, Delay and CutAfter. Connections that lost
// something are closed by it; what was swallowed stays lost.
func (p *Proxy) Heal(t testing.TB) { t.Helper(); p.proxy.Toxics.ResetToxics(t.Context()) }

// Disconnect closes all connections. New ones are accepted at once.
func (p *Proxy) Disconnect(t testing.TB) { t.Helper(); p.Refuse(t); p.Accept(t) }

// Refuse closes all connections and refuses new ones.
func (p *Proxy) Refuse(t testing.TB) { t.Helper(); p.proxy.Stop() }

// Accept ends Refuse.
func (p *Proxy) Accept(t testing.TB) {
	t.Helper()
	if err := p.proxy.Start(); err != nil {
		t.Fatalf("servers: start a proxy again: %v", err)
	}
}

func (p *Proxy) toxic(t testing.TB, stream, kind, attribute string, value int64) {
	t.Helper()
	_, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
		`{"stream": %q, "type": %q, "attributes": {%q: %d}}`, stream, kind, attribute, value)))
	if err != nil {
		t.Fatalf("servers: %s on the proxy: %v", kind, err)
	}
}
