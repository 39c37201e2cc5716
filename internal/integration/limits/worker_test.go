package limits

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/sender"
)

// order is what a worker process is told to do: to poll in vain, to say "ready",
// and at a line more to send so many rows.
type order struct {
	Addr        string
	DB          int
	Key         string
	Events      int
	Per         time.Duration
	Provider    string
	Polls, Rows int
}

// slack costs a ninth of the rate, for machines that run tests.
const slack = 120 * time.Millisecond

// report is what it says at the end.
type report struct {
	Done    int
	Retried int64
	Most    int // attempts of a row
}

// work is the life of a worker process. It ends with its parent.
func work(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: o.Addr, DB: o.DB})
	defer rdb.Close()
	limit, err := sender.NewRateLimit(rdb, o.Key, sender.RateLimitOptions{Events: o.Events, Per: o.Per, Slack: slack})
	if err != nil {
		return err
	}
	var polls atomic.Int64
	ready := make(chan struct{})
	rows := memclaim.New[int](nil)
	d, err := sendonce.New(rows, post(o.Provider), sendonce.Config{
		Limiter: limit, PollInterval: 5 * time.Millisecond,
		Hooks: sendonce.Hooks{Claimed: func(n int, _ time.Duration, _ error) {
			if n == 0 && polls.Add(1) == int64(o.Polls) {
				close(ready)
			}
		}},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- d.Run(ctx) }()
	<-ready
	fmt.Fprintln(out, "ready")
	if _, err := lines.ReadBytes('\n'); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		os.Exit(3)
	}()
	for i := range o.Rows {
		if err := rows.Add(memclaim.Row[int]{Key: i, Value: i}); err != nil {
			return err
		}
	}
	var counts sendonce.Counts
	for counts.Done < int64(o.Rows) {
		time.Sleep(5 * time.Millisecond)
		if counts, err = rows.Counts(ctx); err != nil {
			return err
		}
	}
	cancel()
	if err := <-stopped; err != nil {
		return err
	}
	r := report{Done: int(counts.Done), Retried: d.Stats().Retried}
	for _, row := range rows.Rows() {
		r.Most = max(r.Most, row.Attempts)
	}
	return json.NewEncoder(out).Encode(r)
}

// post is a Sender to a provider that says 429 to all, and for how long.
func post(url string) sendonce.SenderFunc[int] {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	return func(ctx context.Context, _ sendonce.Item[int]) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
		if err != nil {
			return sendonce.Permanent(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		switch {
		case resp.StatusCode == http.StatusTooManyRequests:
			seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
			return sendonce.Throttled(time.Duration(seconds)*time.Second, errors.New(resp.Status))
		case resp.StatusCode != http.StatusOK:
			return errors.New(resp.Status)
		}
		return nil
	}
}
