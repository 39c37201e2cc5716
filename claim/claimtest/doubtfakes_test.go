package claimtest

import (
	"context"
	"time"

	"github.com/sendonce/sendonce"
)

var brokenDoubts = []broken{
	{"says nothing of vanished workers", []string{"VanishedAreInDoubt"}, func(_ *rig, f *fake) {
		f.eachBatch(func(b *batch) {
			for i := range b.Items {
				b.Items[i].InDoubt = false
			}
		})
	}},
	{"counts doubt from the reclaim", []string{"VanishedAreInDoubt"}, func(_ *rig, f *fake) {
		f.eachBatch(func(b *batch) {
			for i := range b.Items {
				b.Items[i].DoubtAge = min(b.Items[i].DoubtAge, 1)
			}
		})
	}},
	{"forgets doubt at the next attempt", []string{"DoubtIsKept"}, func(w *rig, f *fake) {
		f.eachBatch(func(b *batch) {
			for _, it := range b.Items {
				_ = w.edit(it.Key, func(r *row) { r.DoubtSince = time.Time{} })
			}
		})
	}},
	{"takes the latest doubt", []string{"DoubtIsKept"}, func(w *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) {
			if r.Doubt > 0 {
				_ = w.edit(r.Key, func(r *row) { r.DoubtSince = time.Time{} })
			}
		})
	}},
	{"doubts every retry", []string{"DoubtIsKept"}, func(_ *rig, f *fake) {
		f.eachResult(func(r *sendonce.Result) { r.Doubt = max(r.Doubt, 1) })
	}},
	{"doubts what was requeued", []string{"RequeuedIsNotInDoubt"}, func(w *rig, _ *fake) { w.keepDoubt = true }},
	{"pages by position", []string{"Unknowns"}, func(_ *rig, f *fake) {
		f.unknowns = func(ctx context.Context, _ sendonce.Key, limit int) ([]sendonce.UnknownRow[string], error) {
			return f.inner.Unknowns(ctx, nil, limit)
		}
	}},
	{"shows unknown rows without their token", []string{"Unknowns"}, func(_ *rig, f *fake) {
		f.unknowns = func(ctx context.Context, after sendonce.Key, limit int) ([]sendonce.UnknownRow[string], error) {
			rows, err := f.inner.Unknowns(ctx, after, limit)
			for i := range rows {
				rows[i].Token = 0
			}
			return rows, err
		}
	}},
	{"resumes by key alone", []string{"Resume"}, func(w *rig, f *fake) {
		f.resume = func(ctx context.Context, refs []sendonce.Ref) (int, error) {
			for i := range refs {
				refs[i].Token = w.token(refs[i].Key)
			}
			return f.inner.Resume(ctx, refs)
		}
	}},
	{"resumes what is done", []string{"Resume"}, func(w *rig, f *fake) {
		f.resume = func(ctx context.Context, refs []sendonce.Ref) (int, error) {
			for _, ref := range refs {
				if w.status(ref.Key) == Done {
					w.c.SetStatus(ref.Key, Pending)
				}
			}
			return f.inner.Resume(ctx, refs)
		}
	}},
	{"resumes and keeps the doubt", []string{"Resume"}, func(w *rig, f *fake) {
		f.resume = func(ctx context.Context, refs []sendonce.Ref) (int, error) {
			n, err := f.inner.Resume(ctx, refs)
			for _, ref := range refs {
				if w.status(ref.Key) == Pending {
					_ = w.edit(ref.Key, func(r *row) { r.DoubtSince = time.Now() })
				}
			}
			return n, err
		}
	}},
}
