package claimtest

import (
	"context"
	"time"

	"github.com/sendonce/sendonce"
)

var brokenLeases = []broken{
	{"extends nothing", []string{"ExtendKeepsAClaim"}, func(_ *rig, f *fake) {
		f.extend = func(context.Context, []int64) (sendonce.Extension, error) { return sendonce.Extension{}, nil }
	}},
	{"no token on extend", []string{"ExtendAfterReap"}, func(w *rig, f *fake) {
		f.extend = func(ctx context.Context, tokens []int64) (sendonce.Extension, error) {
			for _, h := range w.c.Holders() {
				_, _ = f.inner.Extend(ctx, []int64{h.Token})
			}
			return f.inner.Extend(ctx, tokens)
		}
	}},
	{"says that nothing is lost", []string{"ExtendNamesTheLost", "ExtendAfterReap"}, func(_ *rig, f *fake) {
		f.extend = func(ctx context.Context, tokens []int64) (sendonce.Extension, error) {
			_, err := f.inner.Extend(ctx, tokens)
			return sendonce.Extension{}, err
		}
	}},
	{"extend makes the claim again", []string{"ExtendNamesTheLost", "ExtendAfterReap"}, func(w *rig, f *fake) {
		f.extend = func(ctx context.Context, tokens []int64) (ext sendonce.Extension, err error) {
			for _, t := range tokens {
				one, err := f.inner.Extend(ctx, []int64{t})
				if err != nil {
					return ext, err
				}
				if len(one.Lost) > 0 && w.first(t) {
					ext.Lost = append(ext.Lost, t)
				}
			}
			return ext, nil
		}
	}},
	{"ends all claims", []string{"EndIsIdempotent"}, func(w *rig, f *fake) {
		f.end = func(ctx context.Context, tokens []int64) error {
			for _, h := range w.c.Holders() {
				_ = f.inner.End(ctx, []int64{h.Token})
			}
			return nil
		}
	}},
	{"doesn't count what a vanished worker tried", []string{"VanishedWorker"}, func(w *rig, f *fake) {
		f.afterReap(func(*sendonce.Reaped) { w.each(isSuspect, func(r *row) { r.Attempts = 0 }) })
	}},
	{"counts what it gives back twice", []string{"TwoReapers", "VanishedWorker"}, func(_ *rig, f *fake) {
		f.afterReap(func(out *sendonce.Reaped) { out.Returned *= 2 })
	}},
	{"takes live claims", []string{"ReapLeavesTheLiving", "AllAtOnce"}, func(w *rig, f *fake) {
		f.reap = func(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
			n := w.each(func(r row) bool { return r.Status == Claimed }, func(r *row) { r.Status, r.NextAttempt = Pending, time.Now() })
			out, err := f.inner.Reap(ctx, req)
			out.Returned += n
			return out, err
		}
	}},
	{"never looks for orphans", []string{"PatrolFindsOrphans"}, func(_ *rig, f *fake) {
		f.end = func(ctx context.Context, tokens []int64) error { return nil }
		f.reap = func(context.Context, sendonce.ReapRequest) (sendonce.Reaped, error) { return sendonce.Reaped{}, nil }
	}},
	{"reaps by the clock alone", []string{"OneLookIsNotEnough"}, func(_ *rig, f *fake) {
		f.reap = func(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
			req.ClockOnly = true
			return f.inner.Reap(ctx, req)
		}
	}},
	{"reaps by its eyes alone", []string{"TwoWitnesses"}, func(w *rig, f *fake) {
		f.reap = w.ownEyes(f, func(time.Duration) bool { return true })
	}},
	{"an error is no gap", []string{"ErrorIsAGap"}, func(_ *rig, f *fake) {
		f.reap = func(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
			if ctx.Err() != nil {
				return sendonce.Reaped{}, ctx.Err()
			}
			return f.inner.Reap(ctx, req)
		}
	}},
	{"nothing is a gap", []string{"PauseIsAGap", "ErrorIsAGap"}, func(w *rig, f *fake) {
		f.reap = w.ownEyes(f, func(left time.Duration) bool { return left <= 0 })
	}},
	{"the reaper clears the token", []string{"LateDone", "SuspectsApart", "LastAttemptAlone"}, func(w *rig, f *fake) {
		f.afterReap(func(*sendonce.Reaped) { w.each(isSuspect, func(r *row) { r.Token = 0 }) })
	}},
	{"the reaper takes foreign rows", []string{"ForeignStateOfAVanishedWorker"}, func(w *rig, f *fake) {
		f.reap = func(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
			w.each(func(r row) bool { return r.Status == cancelled }, func(r *row) { r.Status = Claimed })
			return f.inner.Reap(ctx, req)
		}
	}},
	{"gives nothing back of a claim that misses a row", []string{"MissingRowOfAVanishedWorker"}, func(w *rig, f *fake) {
		f.reap = func(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
			if hs := w.c.Holders(); len(hs) > 0 && hs[0].Unmarked < hs[0].Rows {
				return sendonce.Reaped{}, nil
			}
			return f.inner.Reap(ctx, req)
		}
	}},
	{"kills neighbours", []string{"NeighboursAreSpared"}, func(w *rig, f *fake) {
		f.reap = func(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
			out, err := f.inner.Reap(ctx, req)
			if out.Returned > 1 && req.MaxAttempts == 2 {
				n := w.each(isSuspect, func(r *row) { r.Status = Dead })
				out.Returned, out.Dead = out.Returned-n, n
			}
			return out, err
		}
	}},
	{"a suspect stays one", []string{"SuspectsSettleLikeOthers"}, func(w *rig, f *fake) {
		f.settle = func(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
			es, err := f.inner.Settle(ctx, rs)
			w.each(func(r row) bool { return r.Status == Pending && r.Attempts > 0 }, func(r *row) { r.Token, r.Attempts = 7, maxAttempts-1 })
			return es, err
		}
	}},
	{"begins everything", []string{"Begin", "BeginAfterTheLease"}, func(_ *rig, f *fake) {
		f.begin = func(ctx context.Context, refs []sendonce.Ref) ([]sendonce.Ref, error) {
			_, err := f.inner.Begin(ctx, refs)
			return nil, err
		}
	}},
	{"begins in memory only", []string{"Begin", "VanishedInMidSend"}, func(w *rig, f *fake) {
		f.begin = func(ctx context.Context, refs []sendonce.Ref) ([]sendonce.Ref, error) {
			lost, err := f.inner.Begin(ctx, refs)
			w.each(func(r row) bool { return r.Status == Sending }, func(r *row) { r.Status = Claimed })
			return lost, err
		}
	}},
	{"releases what is being sent", []string{"BegunRowsSettle"}, func(w *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) {
			if r.Outcome == sendonce.Released && w.status(r.Key) == Sending {
				_ = w.edit(r.Key, func(x *row) { x.Status = Claimed })
			}
		})
	}},
	{"sends again under AtMostOnce", []string{"VanishedInMidSend"}, func(w *rig, f *fake) {
		f.afterReap(func(out *sendonce.Reaped) {
			n := w.each(func(r row) bool { return r.Status == Unknown }, func(r *row) { r.Status, r.NextAttempt = Pending, time.Now() })
			out.Unknown, out.Returned = out.Unknown-n, out.Returned+n
		})
	}},
}

// ownEyes makes a Reap that remembers when it saw a claim first, and nothing
// else: it takes claims after two thirds of their lease if the clock agrees.
func (w *rig) ownEyes(f *fake, over func(left time.Duration) bool) func(context.Context, sendonce.ReapRequest) (sendonce.Reaped, error) {
	since := map[int64]time.Time{}
	return func(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
		if ctx.Err() != nil {
			return sendonce.Reaped{}, ctx.Err()
		}
		var out sendonce.Reaped
		for _, h := range w.c.Holders() {
			if since[h.Token].IsZero() {
				since[h.Token] = time.Now()
			}
			if time.Since(since[h.Token]) < h.Lease/3*2 || !over(time.Until(h.Until)) {
				continue
			}
			_ = f.inner.End(ctx, []int64{h.Token})
			out.Returned += w.each(func(r row) bool { return r.Token == h.Token && r.Status == Claimed }, func(r *row) { r.Status, r.NextAttempt = Pending, time.Now() })
		}
		return out, nil
	}
}
