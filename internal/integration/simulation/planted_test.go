package simulation

// planted are faults that the simulation must find. Each is the law of
// docs/semantics.md with one rule left out. old stands exactly once in file.
var planted = []fault{
	// The store.
	{"an opinion needs no token", "claim/memclaim/settle.go", "case Claimed:\n\t\tif mine {", "case Claimed:\n\t\tif true {"},
	{"a renewal says of a lost claim that it is ours", "claim/memclaim/claim.go", "ext.Lost = append(ext.Lost, token)", "_ = token"},
	{
		"a renewal makes a lost claim again", "claim/memclaim/claim.go", "ext.Lost = append(ext.Lost, token)",
		"t.claims[token] = &liveClaim{Holder: Holder{Token: token, Lease: 6000000000, Until: now.Add(6000000000)}}",
	},
	{"a claim lasts by the process's clock, not the store's", "claim/memclaim/claim.go", "Until: now.Add(req.Lease)", "Until: time.Now().Add(req.Lease)"},
	{"vanished workers are known by the store's clock alone", "claim/memclaim/reap.go", "over && (req.ClockOnly ||", "over && (true ||"},
	{"vanished workers are known by the second witness alone", "claim/memclaim/reap.go", "if over && (", "if (true || over) && ("},
	{"a gap in the view is forgiven", "claim/memclaim/reap.go", "w.gap > renewal ||", "false ||"},
	{"the reaper clears the token", "claim/memclaim/reap.go", "out.Returned++\n", "out.Returned++\n\tr.Token = 0\n"},
	{"the patrol needs no second sighting", "claim/memclaim/reap.go", "time.Time{}, lease) >= 2*(lease/3)", "time.Time{}, lease) >= 0"},
	{"a release is charged as an attempt", "claim/memclaim/settle.go", "t.putBack(r, now, true)", "t.putBack(r, now, false)"},
	{"a late fact is refused", "claim/memclaim/settle.go", "return sendonce.Late", "return sendonce.NotHeld"},
	{"Requeue leaves the token", "claim/memclaim/memclaim.go", "n++\n\t\t\tr.Attempts, r.Token", "n++\n\t\t\tdefer func(token int64) { r.Token = token }(r.Token)\n\t\t\tr.Attempts, r.Token"},
	{"the last try of a suspect is not made alone", "claim/memclaim/claim.go", "alone = len(rows) > 0", "alone = false"},
	{"an intent is recorded for a claim that is over", "claim/memclaim/claim.go", "!lc.Until.After(now) {\n\t\t\tlost", "now.IsZero() {\n\t\t\tlost"},

	// The loop: leases.
	{"the lease counts from the claim's reply", "intake.go", "since: began,", "since: time.Now(),"},
	{"the lease counts from the renewal's reply", "keeper.go", "b.since, b.until = began,", "b.since, b.until = time.Now(),"},
	{"the lease is kept on the wall clock alone", "defaults.go", "return max(now.Sub(t), wall(now).Sub(wall(t)))", "return wall(now).Sub(wall(t))"},
	{"the lease is kept on the monotonic clock alone", "defaults.go", "return max(now.Sub(t), wall(now).Sub(wall(t)))", "return now.Sub(t)"},
	{"no start rule", "slots.go", "case !l.inTime(j, now):", "case false:"},
	{"no margin in the start rule", "slots.go", ">= l.cfg.SendTimeout+l.cfg.margin()", ">= l.cfg.SendTimeout"},
	{"no watchman", "keeper.go", "if !b.lost && !b.gone && b.left", "if false && b.left"},
	{"what is lost is not stopped", "keeper.go", "\tb.end(ErrLost)\n", ""},

	// The loop: marks and claims.
	{"marks are written on the context of the sends", "marks.go", "context.WithTimeout(l.ctx, patience)", "context.WithTimeout(l.work, patience)"},
	{"a claim is ended before its rows are settled", "loop.go", "if b.open > 0 {", "if b.open > 1 {"},
	{"senders don't wait for slow marks", "marks.go", "return waiting > marksMost ||", "return waiting > marksMost &&"},
	{"claims go on while results can't be recorded", "intake.go", "l.waiting < enough && free && l.failing.IsZero()", "l.waiting < enough && free"},
	{"a result is dropped when the store can't write it", "marks.go", "l.parked, l.failure = append(l.parked, rs[i]), err", "l.failure = err"},
	{"a result is dropped when Settle fails", "marks.go", "l.unrecorded(len(rs), err)\n", "l.unrecorded(len(rs), err)\n\t\t\trs = nil\n"},
	{"a row stands twice in one Settle", "marks.go", "if _, twice := seen[r.Key]; twice {", "if _, twice := seen[r.Key]; twice && false {"},
	{"a stopping worker keeps what it has not begun", "loop.go", "l.giveBack(l.take(0), Released, 0)\n\t}\n\tl.startable", "l.take(0)\n\t}\n\tl.startable"},

	// The loop: sends.
	{"a row is sent while it is being sent", "slots.go", "case l.busy(j):", "case false:"},
	{"what is to be sent alone is not", "slots.go", "case j.b.alone && !l.quiet():", "case false:"},
	{"a claim goes on although one of its sends is stuck", "keeper.go", "s.stuck, s.b.spent = true, true", "s.stuck = true"},
	{"a lost claim goes on", "loop.go", "return !h.spent && !h.lost && !h.gone", "return !h.spent"},
	{"a failed Begin is ignored", "intent.go", "in.err = err\n", "in.err = err\n\t\tin.err = nil\n"},
	{"a row that Begin refuses is sent", "intent.go", "if in.lost || ", "if "},
	{"a row whose intent may be recorded is released", "slots.go", "Outcome: Retry, After: jitter(time.Second), Uncharged: true", "Outcome: Released"},
	{"what can't be known is tried again under AtMostOnce", "outcome.go", "c.Delivery == AtMostOnce:\n\t\tr.Outcome = Unknown", "c.Delivery == AtMostOnce:\n\t\tr.Outcome = Retry"},
	{"one attempt more than allowed", "outcome.go", "case attempt >= c.MaxAttempts:", "case attempt > c.MaxAttempts:"},
}
