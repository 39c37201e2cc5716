package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// screen shows what goes on: a bar on a terminal, else a line every second.
// Several goroutines may use it.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	bar   *progressbar.ProgressBar // nil: no terminal
	total int
	begin time.Time
	last  time.Time
	shown progress
}

func newScreen(out io.Writer, terminal bool, total int) *screen {
	s := &screen{out: out, total: total, begin: time.Now()}
	s.last = s.begin
	if terminal {
		s.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(out), progressbar.OptionSetWidth(20), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetItsString("mails"), progressbar.OptionThrottle(100*time.Millisecond))
	}
	return s
}

// say prints a line above the bar.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		_ = s.bar.Clear()
	}
	fmt.Fprintf(s.out, "%6.1f s  %s\n", time.Since(s.begin).Seconds(), fmt.Sprintf(format, args...))
	if s.bar != nil {
		_ = s.bar.RenderBlank()
	}
}

// update shows how far it is.
func (s *screen) update(p progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		if p == s.shown && s.bar.IsFinished() {
			return
		}
		s.shown = p
		s.bar.Describe(fmt.Sprintf("sent %d, retrying %d, dead %d", p.sent, p.retrying, p.dead))
		_ = s.bar.Set(min(p.sent+p.dead, s.total))
		return
	}
	now := time.Now()
	if now.Sub(s.last) < time.Second {
		return
	}
	rate := float64(p.sent-s.shown.sent) / now.Sub(s.last).Seconds()
	left := s.total - p.sent - p.dead
	wait := "waiting"
	if rate > 0 {
		wait = fmt.Sprintf("%.0f s left", float64(left)/rate)
	}
	fmt.Fprintf(s.out, "%6.1f s  sent %d of %d, retrying %d, dead %d, %.0f mails/s, %s\n",
		now.Sub(s.begin).Seconds(), p.sent, s.total, p.retrying, p.dead, rate, wait)
	s.last, s.shown = now, p
}

// end leaves the bar behind.
func (s *screen) end(p progress) {
	s.update(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		_ = s.bar.Exit()
		fmt.Fprintln(s.out)
	}
}

func (s *screen) elapsed() time.Duration { return time.Since(s.begin) }
