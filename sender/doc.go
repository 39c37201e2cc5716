// Package sender has what Senders share: RateLimit, a limit on sends that all
// processes keep together.
//
//	limit, err := sender.NewRateLimit(rdb, "mail:limit", sender.RateLimitOptions{Events: 10})
//	...
//	d, err := sendonce.New(mails, deliver, sendonce.Config{Limiter: limit})
//
// A limit for each process by itself needs nothing of this package:
// *rate.Limiter of golang.org/x/time/rate is a sendonce.Limiter as it is. Ten
// processes then send ten times its rate.
//
// Ready-made Senders are in the packages below: webhook (HTTP) and mail (SMTP);
// sendertest records sends in tests.
package sender
