package claimtest

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
)

type (
	row    = memclaim.Row[string]
	batch  = sendonce.Batch[string]
	broken struct {
		name  string
		fails []string // the cases that must see it
		spoil func(w *rig, f *fake)
	}
)

func isSuspect(r row) bool { return r.Status == Pending && r.Token != 0 }

var brokenClaims = []broken{
	{"claims one more than the limit", []string{"Limit"}, func(_ *rig, f *fake) {
		f.claim = func(ctx context.Context, req sendonce.ClaimRequest) (batch, error) {
			req.Limit++
			return f.inner.Claim(ctx, req)
		}
	}},
	{"marks more than it returns", []string{"Limit"}, func(w *rig, f *fake) {
		f.eachBatch(func(b *batch) {
			if len(b.Items) > 1 {
				b.Items = b.Items[1:]
			}
		})
	}},
	{"hands a row out twice", []string{"OneHolder"}, func(w *rig, f *fake) {
		f.eachBatch(func(b *batch) {
			if len(b.Items) > 1 && w.first("saved") {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.seen[b.Items[0]] = true
			} else if len(b.Items) > 1 && w.first("again") {
				w.mu.Lock()
				defer w.mu.Unlock()
				for x := range w.seen {
					if it, ok := x.(sendonce.Item[string]); ok {
						b.Items[0] = it
					}
				}
			}
		})
	}},
	{"uses a token twice", []string{"TokenIsNew"}, func(w *rig, f *fake) {
		f.eachBatch(func(b *batch) { b.Token = 7 })
		f.eachResult(func(r *sendonce.Result) { r.Token = w.token(r.Key) })
	}},
	{"has token 0", []string{"TokenIsNew"}, func(_ *rig, f *fake) {
		f.eachBatch(func(b *batch) { b.Token = 0 })
	}},
	{"counts attempts in memory only", []string{"AttemptsAreCounted"}, func(w *rig, f *fake) {
		f.eachBatch(func(b *batch) {
			for _, it := range b.Items {
				_ = w.edit(it.Key, func(r *row) { r.Attempts-- })
			}
		})
	}},
	{"an empty claim leaves a claim", []string{"EmptyClaim"}, func(w *rig, f *fake) {
		f.eachBatch(func(b *batch) {
			if len(b.Items) == 0 {
				b.Token = 7
			}
		})
		f.extend = func(ctx context.Context, tokens []int64) (sendonce.Extension, error) {
			return f.inner.Extend(ctx, slices.DeleteFunc(slices.Clone(tokens), func(t int64) bool { return t == 7 }))
		}
	}},
	{"mixes values up", []string{"Value"}, func(_ *rig, f *fake) {
		f.eachBatch(func(b *batch) {
			for i := range b.Items {
				b.Items[i].Value = "other"
			}
		})
	}},
	{"has the attempt in the idempotency key", []string{"IdempotencyKey", "VanishedWorker"}, func(_ *rig, f *fake) {
		f.eachBatch(func(b *batch) {
			for i := range b.Items {
				b.Items[i].IdempotencyKey += string(rune('0' + b.Items[i].Attempt))
			}
		})
	}},
	{"has one idempotency key", []string{"IdempotencyKey"}, func(_ *rig, f *fake) {
		f.eachBatch(func(b *batch) {
			for i := range b.Items {
				b.Items[i].IdempotencyKey = "key"
			}
		})
	}},
	{"ignores due times", []string{"OnlyDueRows", "RetryComesAfterItsDelay"}, func(w *rig, f *fake) {
		f.claim = func(ctx context.Context, req sendonce.ClaimRequest) (batch, error) {
			for _, r := range w.c.Rows() {
				if !r.NextAttempt.IsZero() {
					w.c.Schedule(r.Key, time.Now())
				}
			}
			return f.inner.Claim(ctx, req)
		}
	}},
	{"never finds what was inserted late", []string{"LateInsert"}, func(w *rig, _ *fake) { w.late = true }},
	{"fails for an unreadable row", []string{"UnreadableRow"}, func(_ *rig, f *fake) {
		f.claim = func(ctx context.Context, req sendonce.ClaimRequest) (batch, error) {
			b, err := f.inner.Claim(ctx, req)
			for _, it := range b.Items {
				if it.Err != nil {
					return batch{}, it.Err
				}
			}
			return b, err
		}
	}},
	{"hides that a row is unreadable", []string{"UnreadableRow"}, func(_ *rig, f *fake) {
		f.eachBatch(func(b *batch) {
			for i := range b.Items {
				b.Items[i].Err = nil
			}
		})
	}},
	{"claims after the end of its context", []string{"ContextHasEnded"}, func(_ *rig, f *fake) {
		f.claim = func(ctx context.Context, req sendonce.ClaimRequest) (batch, error) {
			b, _ := f.inner.Claim(context.WithoutCancel(ctx), req)
			return b, ctx.Err()
		}
	}},
	{"settles after the end of its context", []string{"ContextHasEnded"}, func(_ *rig, f *fake) {
		f.settle = func(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
			return f.inner.Settle(context.WithoutCancel(ctx), rs)
		}
	}},
	{"mixes deliveries", []string{"Delivery"}, func(_ *rig, f *fake) {
		f.claim = func(ctx context.Context, req sendonce.ClaimRequest) (batch, error) {
			req.Delivery = sendonce.AtLeastOnce
			return f.inner.Claim(ctx, req)
		}
	}},
	{"counts foreign rows as pending", []string{"Counts"}, func(_ *rig, f *fake) {
		f.counts = func(ctx context.Context) (sendonce.Counts, error) {
			c, err := f.inner.Counts(ctx)
			c.Pending, c.Other = c.Pending+c.Other, 0
			return c, err
		}
	}},
	{"claims what only Reap may take", []string{"OnlyReapTakes"}, func(_ *rig, f *fake) {
		f.claim = func(ctx context.Context, req sendonce.ClaimRequest) (batch, error) {
			_, _ = f.inner.Reap(ctx, sendonce.ReapRequest{MaxAttempts: req.MaxAttempts, ClockOnly: true})
			return f.inner.Claim(ctx, req)
		}
	}},
	{"puts suspects together without a bound", []string{"SuspectsApart"}, func(_ *rig, f *fake) {
		f.claim = func(ctx context.Context, req sendonce.ClaimRequest) (batch, error) {
			req.Suspects = 0
			return f.inner.Claim(ctx, req)
		}
	}},
	{"mixes suspects with others", []string{"SuspectsApart"}, func(w *rig, f *fake) {
		f.claim = func(ctx context.Context, req sendonce.ClaimRequest) (batch, error) {
			w.each(isSuspect, func(r *row) { r.Token = 0 })
			return f.inner.Claim(ctx, req)
		}
	}},
	{"hands suspects out one by one", []string{"AllSuspects"}, func(_ *rig, f *fake) {
		f.claim = func(ctx context.Context, req sendonce.ClaimRequest) (batch, error) {
			req.Suspects = 1
			return f.inner.Claim(ctx, req)
		}
	}},
	{"is never alone", []string{"LastAttemptAlone", "NeighboursAreSpared"}, func(_ *rig, f *fake) {
		f.claim = func(ctx context.Context, req sendonce.ClaimRequest) (batch, error) {
			req.MaxAttempts = 0
			return f.inner.Claim(ctx, req)
		}
	}},
	{"fresh rows first", []string{"FreshRowsStarveNobody", "ClaimsOfOneStarveNobody"}, func(w *rig, f *fake) {
		f.claim = w.hiding(f, func(r row) bool { return !r.NextAttempt.IsZero() && r.Token == 0 })
	}},
	{"rows that come back first", []string{"FailingRowsStarveNobody"}, func(w *rig, f *fake) {
		f.claim = w.hiding(f, func(r row) bool { return r.NextAttempt.IsZero() })
	}},
	{"suspects last", []string{"SuspectsStarveNobody"}, func(w *rig, f *fake) { f.claim = w.hiding(f, isSuspect) }},
	{"forgets rows", []string{"AllAtOnce"}, func(w *rig, f *fake) {
		f.eachBatch(func(b *batch) {
			if len(b.Items) > 3 && w.first("forgotten") {
				b.Items = b.Items[1:]
			}
		})
	}},
}

// hiding makes a Claim that sees some pending rows only if there are no others.
func (w *rig) hiding(f *fake, hide func(r row) bool) func(context.Context, sendonce.ClaimRequest) (batch, error) {
	return func(ctx context.Context, req sendonce.ClaimRequest) (batch, error) {
		hidden := map[any]row{}
		w.each(func(r row) bool { return r.Status == Pending && hide(r) }, func(r *row) {
			hidden[r.Key] = *r
			r.Token, r.NextAttempt = 0, time.Now().Add(time.Hour)
		})
		b, err := f.inner.Claim(ctx, req)
		w.each(func(r row) bool { _, ok := hidden[r.Key]; return ok }, func(r *row) { *r = hidden[r.Key] })
		if err == nil && len(b.Items) == 0 {
			return f.inner.Claim(ctx, req)
		}
		return b, err
	}
}

var brokenSettles = []broken{
	{"done rows come back", []string{"Done"}, func(w *rig, f *fake) {
		f.settle = func(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
			es, err := f.inner.Settle(ctx, rs)
			w.each(func(r row) bool { return r.Status == Done }, func(r *row) { r.Status, r.Token = Pending, 0 })
			return es, err
		}
	}},
	{"skipped rows are retried", []string{"PutAside"}, func(_ *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) {
			if r.Outcome == sendonce.Skipped {
				r.Outcome = sendonce.Retry
			}
		})
	}},
	{"loses the reason", []string{"PutAside"}, func(_ *rig, f *fake) { f.eachResult(func(r *sendonce.Result) { r.Reason = "" }) }},
	{"fails for a long reason", []string{"Reason"}, func(_ *rig, f *fake) {
		f.settle = func(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
			for _, r := range rs {
				if len(r.Reason) > 255 {
					return nil, errNoRow
				}
			}
			return f.inner.Settle(ctx, rs)
		}
	}},
	{"ignores After", []string{"RetryComesAfterItsDelay"}, func(_ *rig, f *fake) { f.eachResult(func(r *sendonce.Result) { r.After = 0 }) }},
	{"retries late", []string{"RetryAtOnce"}, func(_ *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) { r.After += time.Hour })
	}},
	{"charges what is not to be charged", []string{"Uncharged"}, func(_ *rig, f *fake) { f.eachResult(func(r *sendonce.Result) { r.Uncharged = false }) }},
	{"charges what was released", []string{"Released"}, func(_ *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) {
			if r.Outcome == sendonce.Released {
				r.Outcome = sendonce.Retry
			}
		})
	}},
	{"no token on opinions", []string{"OpinionNeedsItsToken", "OvertakenOpinions"}, func(w *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) {
			if r.Outcome != sendonce.Done {
				r.Token = w.token(r.Key)
			}
		})
	}},
	{"no token on facts", []string{"OpinionNeedsItsToken", "OvertakenDone", "RequeueClearsTheToken"}, func(w *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) {
			if r.Outcome == sendonce.Done {
				r.Token = w.token(r.Key)
			}
		})
	}},
	{"opinions of rows that are pending", []string{"LateOpinions"}, func(w *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) {
			if r.Outcome != sendonce.Done && w.token(r.Key) == r.Token && w.status(r.Key) == Pending {
				_ = w.edit(r.Key, func(x *row) { x.Status = Claimed })
			}
		})
	}},
	{"opinions of rows that have an outcome", []string{"OpinionAfterAnOutcome"}, func(w *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) {
			if w.status(r.Key) == Skipped {
				_ = w.edit(r.Key, func(x *row) { x.Status = Claimed })
			}
		})
	}},
	{"a repeat is an exception", []string{"RepeatedSettle"}, func(w *rig, f *fake) {
		f.settle = func(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
			es, err := f.inner.Settle(ctx, rs)
			for _, r := range rs {
				if r.Outcome == sendonce.Retry && !w.first(r) {
					es = append(es, sendonce.Exception{Result: r, Cause: sendonce.NotHeld})
				}
			}
			return es, err
		}
	}},
	{"a repeat gives another attempt back", []string{"RepeatedSettle"}, func(w *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) {
			if r.Outcome == sendonce.Dead && !w.first(*r) {
				_ = w.edit(r.Key, func(x *row) { x.Attempts-- })
			}
		})
	}},
	{"stops at an exception", []string{"MixedSettle", "MissingRow"}, func(_ *rig, f *fake) {
		f.settle = func(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
			for _, r := range rs {
				if es, err := f.inner.Settle(ctx, []sendonce.Result{r}); err != nil || len(es) > 0 {
					return es, err
				}
			}
			return nil, nil
		}
	}},
	{"writes the first claim's results only", []string{"MixedSettle"}, func(_ *rig, f *fake) {
		f.eachResult(func() func(r *sendonce.Result) {
			var token int64
			return func(r *sendonce.Result) {
				if token == 0 {
					token = r.Token
				}
				r.Token = token
			}
		}())
	}},
	{"fails for nothing", []string{"Nothing"}, func(_ *rig, f *fake) {
		f.settle = func(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
			if len(rs) == 0 {
				return nil, errNoRow
			}
			return f.inner.Settle(ctx, rs)
		}
	}},
	{"refuses late facts", []string{"LateDone", "LateDoneOfARowPutAside", "LateDoneOfUnknown"}, func(w *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) {
			if s := w.status(r.Key); r.Outcome == sendonce.Done && s != Claimed && s != Sending {
				r.Outcome = sendonce.Skipped
			}
		})
	}},
	{"is silent about late facts", []string{"LateDone"}, func(_ *rig, f *fake) {
		f.settle = func(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
			_, err := f.inner.Settle(ctx, rs)
			return nil, err
		}
	}},
	{"requeues with the old token", []string{"RequeueClearsTheToken"}, func(w *rig, _ *fake) { w.keepToken = true }},
	{"overwrites a foreign state", []string{"ForeignState"}, func(w *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) {
			if w.status(r.Key) == cancelled {
				w.c.SetStatus(r.Key, Claimed)
			}
		})
	}},
	{"loses results of one claim side by side", []string{"SettleAndExtendRace"}, func(_ *rig, f *fake) {
		f.settle = func(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
			if rand.IntN(10) == 0 {
				return nil, nil
			}
			return f.inner.Settle(ctx, rs)
		}
	}},
}
