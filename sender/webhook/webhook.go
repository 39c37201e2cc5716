// Package webhook sends rows as signed HTTP requests.
//
// Each request carries the row's idempotency key in the header Idempotency-Key
// (https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/)
// and, if there is a secret, the headers webhook-id, webhook-timestamp and
// webhook-signature of the Standard Webhooks specification
// (https://github.com/standard-webhooks/standard-webhooks).
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sendonce/sendonce"
)

// Config says where and how to send. URL and Body are used for each row.
type Config[T any] struct {
	// URL returns where a row goes. Needed. An error makes the row dead.
	URL func(item sendonce.Item[T]) (string, error)

	// Body returns what is sent, and its Content-Type. An error makes the row
	// dead. Default: Item.Value as JSON.
	Body func(item sendonce.Item[T]) (body []byte, contentType string, err error)

	// Secret signs requests. Empty: they are not signed.
	Secret []byte

	// Header is added to each request. Default: nothing.
	Header http.Header

	// Permanent reports whether an answer with this status, which is none of
	// 2xx, can't be helped by a retry. Default: 400, 404, 405, 406, 410, 411,
	// 413, 414, 415, 421, 422, 431 and 451; not 401 and 403, which a new
	// credential mends, and not 408, 409, 425 and 429.
	Permanent func(status int) bool

	// Client sends. It must not follow redirects with the request's body to
	// other hosts unless you mean it. Default: one without redirects, whose
	// connections are its own. Timeouts are the Dispatcher's.
	Client *http.Client
}

// maxRetryAfter bounds what a provider can ask for.
const maxRetryAfter = 24 * time.Hour

// New makes a Sender. It may be used from any number of goroutines.
func New[T any](cfg Config[T]) (sendonce.SenderFunc[T], error) {
	if cfg.URL == nil {
		return nil, errors.New("sendonce: webhook.Config.URL is nil: say where rows go")
	}
	if cfg.Body == nil {
		cfg.Body = func(item sendonce.Item[T]) ([]byte, string, error) {
			b, err := json.Marshal(item.Value)
			return b, "application/json", err
		}
	}
	if cfg.Permanent == nil {
		cfg.Permanent = permanent
	}
	if cfg.Client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 64
		cfg.Client = &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return cfg.send, nil
}

func permanent(status int) bool {
	switch status {
	case 400, 404, 405, 406, 410, 411, 413, 414, 415, 421, 422, 431, 451:
		return true
	}
	return false
}

func (c Config[T]) send(ctx context.Context, item sendonce.Item[T]) error {
	req, err := c.request(ctx, item)
	if err != nil {
		return sendonce.Permanent(err)
	}
	// Bytes can have reached the other side once there was a connection.
	var connected atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}))
	resp, err := c.Client.Do(req)
	if err != nil {
		if connected.Load() {
			return sendonce.Ambiguous(err)
		}
		return sendonce.NotSent(err)
	}
	defer resp.Body.Close()
	// Read a bit, so that the connection can be used again, and for the reason.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // the status decides, the text only explains
	return c.answer(resp, text)
}

func (c Config[T]) request(ctx context.Context, item sendonce.Item[T]) (*http.Request, error) {
	url, err := c.URL(item)
	if err != nil {
		return nil, fmt.Errorf("no URL: %w", err)
	}
	body, contentType, err := c.Body(item)
	if err != nil {
		return nil, fmt.Errorf("no body: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range c.Header {
		req.Header[k] = append([]string(nil), v...)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Idempotency-Key", item.IdempotencyKey)
	// net/http would repeat a request with such a header by itself when a kept
	// connection breaks. Under AtMostOnce that is not its to decide.
	req.GetBody = nil
	if len(c.Secret) > 0 {
		now := strconv.FormatInt(time.Now().Unix(), 10)
		req.Header.Set("webhook-id", item.IdempotencyKey)
		req.Header.Set("webhook-timestamp", now)
		req.Header.Set("webhook-signature", "v1,"+Sign(c.Secret, item.IdempotencyKey, now, body))
	}
	return req, nil
}

// Sign returns the signature of a message in base64: HMAC-SHA256 of
// "id.timestamp.body".
func Sign(secret []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func (c Config[T]) answer(resp *http.Response, text []byte) error {
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	err := fmt.Errorf("answered %s: %s", resp.Status, strings.TrimSpace(string(text)))
	if c.Permanent(resp.StatusCode) {
		return sendonce.Permanent(err)
	}
	if d, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now()); ok && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable) {
		return sendonce.RetryAfter(d, err)
	}
	return err
}

// retryAfter reads the header's two forms (RFC 9110, section 10.2.3).
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
		if seconds < 0 {
			return 0, false
		}
		return time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter), true
	}
	return 0, false
}
