package webhook_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/sender/webhook"
)

type order struct {
	Number int `json:"number"`
}

var item = sendonce.Item[order]{Key: int64(7), Value: order{Number: 42}, Attempt: 1, IdempotencyKey: "0123456789abcdef"}

func to(url string) func(sendonce.Item[order]) (string, error) {
	return func(sendonce.Item[order]) (string, error) { return url, nil }
}

// outcomeOf runs one row through a Dispatcher: what an error means is only seen
// there.
func outcomeOf(t *testing.T, delivery sendonce.Delivery, s sendonce.Sender[order]) (outcome sendonce.Outcome, after time.Duration) {
	t.Helper()
	store := memclaim.New[order](nil)
	require.NoError(t, store.Add(memclaim.Row[order]{Key: int64(1), Value: order{Number: 42}}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d, err := sendonce.New[order](store, s, sendonce.Config{
		Delivery: delivery,
		Hooks: sendonce.Hooks{Sent: func(_ sendonce.Key, o sendonce.Outcome, _ int, _ time.Duration, _ error) {
			outcome = o
			cancel()
		}},
	})
	require.NoError(t, err)
	require.NoError(t, d.Run(ctx))
	row, _ := store.Row(int64(1))
	return outcome, time.Until(row.NextAttempt)
}

func TestRequestCarriesValueKeyAndSignature(t *testing.T) {
	var got *http.Request
	var body []byte
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer srv.Close()
	secret := []byte("whsec")
	send, err := webhook.New(webhook.Config[order]{URL: to(srv.URL + "/hook"), Secret: secret, Header: http.Header{"X-Shop": {"9"}}})
	require.NoError(t, err)
	require.NoError(t, send(t.Context(), item))

	assert.Equal(t, "/hook", got.URL.Path)
	assert.Equal(t, "application/json", got.Header.Get("Content-Type"))
	assert.Equal(t, "9", got.Header.Get("X-Shop"))
	assert.Equal(t, item.IdempotencyKey, got.Header.Get("Idempotency-Key"))
	assert.JSONEq(t, `{"number":42}`, string(body))
	sent, err := strconv.ParseInt(got.Header.Get("webhook-timestamp"), 10, 64)
	require.NoError(t, err)
	assert.InDelta(t, time.Now().Unix(), sent, 60)
	assert.Equal(t, "v1,"+webhook.Sign(secret, item.IdempotencyKey, got.Header.Get("webhook-timestamp"), body), got.Header.Get("webhook-signature"))
}

// The value was computed apart, with openssl dgst -sha256 -hmac.
func TestSignIsHMACOfIDTimestampAndBody(t *testing.T) {
	assert.Equal(t, "sYA3/+8KvyXbe4KAKZy0QWKFoLKSHDq/QWu0xQZyY7s=", webhook.Sign([]byte("key"), "id", "1", []byte("body")))
}

func TestAnswersMeanOutcomes(t *testing.T) {
	tests := []struct {
		status     int
		retryAfter string
		most       sendonce.Outcome // under AtMostOnce
		least      sendonce.Outcome
		wait       time.Duration
	}{
		{status: 200, least: sendonce.Done, most: sendonce.Done},
		{status: 204, least: sendonce.Done, most: sendonce.Done},
		{status: 302, least: sendonce.Retry, most: sendonce.Unknown},
		{status: 400, least: sendonce.Dead, most: sendonce.Dead},
		{status: 401, least: sendonce.Retry, most: sendonce.Unknown},
		{status: 409, least: sendonce.Retry, most: sendonce.Unknown},
		{status: 410, least: sendonce.Dead, most: sendonce.Dead},
		{status: 429, retryAfter: "600", least: sendonce.Retry, most: sendonce.Retry, wait: 600 * time.Second},
		{status: 503, retryAfter: time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), least: sendonce.Retry, most: sendonce.Retry, wait: time.Hour},
		{status: 503, retryAfter: "-3", least: sendonce.Retry, most: sendonce.Unknown},
		{status: 500, least: sendonce.Retry, most: sendonce.Unknown},
	}
	for _, tt := range tests {
		t.Run(strconv.Itoa(tt.status)+" "+tt.retryAfter, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tt.retryAfter != "" {
					w.Header().Set("Retry-After", tt.retryAfter)
				}
				w.WriteHeader(tt.status)
			}))
			defer srv.Close()
			send, err := webhook.New(webhook.Config[order]{URL: to(srv.URL)})
			require.NoError(t, err)
			got, wait := outcomeOf(t, sendonce.AtLeastOnce, send)
			assert.Equal(t, tt.least, got)
			if tt.wait > 0 {
				assert.InDelta(t, tt.wait.Seconds(), wait.Seconds(), 30)
			}
			got, _ = outcomeOf(t, sendonce.AtMostOnce, send)
			assert.Equal(t, tt.most, got)
		})
	}
}

func TestRefusedConnectionIsNotSentInBothModes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	url := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	send, err := webhook.New(webhook.Config[order]{URL: to(url)})
	require.NoError(t, err)
	got, _ := outcomeOf(t, sendonce.AtMostOnce, send)
	assert.Equal(t, sendonce.Retry, got)
}

// A kept connection that breaks makes net/http repeat a request by itself if it
// thinks it may.
func TestBrokenConnectionIsAmbiguousAndNotRepeated(t *testing.T) {
	var requests atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1) == 1 {
			return // the connection is kept
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}))
	defer srv.Close()
	send, err := webhook.New(webhook.Config[order]{URL: to(srv.URL)})
	require.NoError(t, err)
	require.NoError(t, send(t.Context(), item))
	got, _ := outcomeOf(t, sendonce.AtMostOnce, send)
	assert.Equal(t, sendonce.Unknown, got)
	assert.EqualValues(t, 2, requests.Load())
}

func TestRowThatHasNoRequestIsDead(t *testing.T) {
	for name, cfg := range map[string]webhook.Config[order]{
		"no URL":  {URL: func(sendonce.Item[order]) (string, error) { return "", errors.New("no address") }},
		"bad URL": {URL: to("http://[::1")},
		"no body": {URL: to("http://127.0.0.1:1"), Body: func(sendonce.Item[order]) ([]byte, string, error) {
			return nil, "", errors.New("no such order")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			send, err := webhook.New(cfg)
			require.NoError(t, err)
			got, _ := outcomeOf(t, sendonce.AtLeastOnce, send)
			assert.Equal(t, sendonce.Dead, got)
		})
	}
	_, err := webhook.New(webhook.Config[order]{})
	assert.ErrorContains(t, err, "Config.URL")
}
