package claim

import (
	"context"
	"database/sql"
	"time"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
)

// reapSQL takes claims from vanished owners.
type reapSQL struct {
	claims, claimKeys, takeClaim           *dialect.Stmt
	deadAlone, sendingUnknown, claimedBack *dialect.Stmt
	claimedBackUncharged                   *dialect.Stmt
}

func newReapSQL(n *names) reapSQL {
	d, c := n.d, n.d.Compile
	until := d.Micros("until")
	reason := n.setReason()
	back := n.is(pending) + ", " + n.next + " = " + d.Now(n.nextType) + ", " + n.attempts + " = "
	last := d.Int(":last")
	capped := "CASE WHEN " + n.attempts + " > " + last + " THEN " + last + " ELSE " + n.attempts + " END"
	over := n.next + " = NULL" + reason + n.setDoubt(d.Int(":doubt"))
	return reapSQL{
		claims: c("SELECT token, owner, mode, alone, lease_ms, " + until + ", " + d.Micros(d.Now("")) + " - " + d.Micros("since") + ", CASE WHEN until <= " + d.Now("") + " THEN 1 ELSE 0 END FROM " +
			n.claims + " WHERE source = " + d.Str(":source")),
		claimKeys:            c("SELECT row_keys FROM " + n.claims + " WHERE token = " + d.Int(":token")),
		takeClaim:            c("DELETE FROM " + n.claims + " WHERE token = " + d.Int(":token") + " AND " + until + " = " + d.Int(":until")),
		deadAlone:            c(n.update(n.is(dead)+", "+over, n.keysIn(), n.byToken(), n.is(claimed), n.attempts+" > "+last)),
		sendingUnknown:       c(n.update(n.is(unknown)+", "+over, n.keysIn(), n.byToken(), n.is(sending))),
		claimedBack:          c(n.update(back+capped+reason+n.setDoubt(d.Int(":doubt")), n.keysIn(), n.byToken(), n.is(claimed))),
		claimedBackUncharged: c(n.update(back+n.attempts+" - 1"+reason, n.keysIn(), n.byToken(), n.is(claimed))),
	}
}

func (n *names) setReason() string {
	if n.lastError == "" {
		return ""
	}
	return ", " + n.lastError + " = " + n.d.Str(":reason")
}

// Reap implements sendonce.Reaper. It scans the claims table, takes the claims
// that are ripe, and spends a small share of its time on the patrol.
func (s *store) Reap(ctx context.Context, req sendonce.ReapRequest) (sendonce.Reaped, error) {
	var out sendonce.Reaped
	began := time.Now()
	claims, err := s.scanClaims(ctx)
	if err != nil {
		s.sight.forget()
		s.rounds.forget()
		return out, err
	}
	for _, c := range claims {
		if r := c.lease / 6; out.Next == 0 || r < out.Next {
			out.Next = r
		}
	}
	for _, c := range s.sight.look(began, time.Now(), claims, req.ClockOnly) {
		if err := s.takeBack(ctx, c, req, &out); err != nil {
			s.sight.forget()
			return out, err
		}
	}
	return out, s.walkRound(ctx, req, &out)
}

func (s *store) scanClaims(ctx context.Context) ([]seenClaim, error) {
	var out []seenClaim
	err := s.query(ctx, s.db, "scan the claims", s.reap.claims, dialect.Args{"source": s.source}, func(rows *sql.Rows) error {
		var c seenClaim
		var alone, over, leaseMS, age int64
		err := rows.Scan(&c.token, &c.owner, &c.mode, &alone, &leaseMS, &c.until, &age, &over)
		c.alone, c.over, c.lease = alone != 0, over != 0, time.Duration(leaseMS)*time.Millisecond
		c.made = time.Now().Add(-time.Duration(age) * time.Microsecond)
		out = append(out, c)
		return err
	})
	return out, err
}

// takeBack takes one claim from its owner and gives its rows back, in one
// transaction. If the claim is not as it was seen, its owner lives. The token
// stays in the rows: a send that did happen can still be recorded, and the rows
// are known as suspects.
func (s *store) takeBack(ctx context.Context, c seenClaim, req sendonce.ReapRequest, out *sendonce.Reaped) error {
	var did sendonce.Reaped
	err := s.inTx(ctx, "take back a claim", func(tx dialect.Tx) error {
		did = sendonce.Reaped{}
		var keys dialect.Keys
		err := s.query(ctx, tx, "read a claim", s.reap.claimKeys, dialect.Args{"token": c.token}, func(rows *sql.Rows) error {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			var err error
			keys, err = dialect.ParseKeys(text, s.keyKind)
			return err
		})
		if err != nil {
			return err
		}
		n, err := s.exec(ctx, tx, "take back a claim", s.reap.takeClaim, dialect.Args{"token": c.token, "until": c.until})
		if err != nil || n != 1 || len(keys) == 0 {
			return err
		}
		did, err = s.giveBack(ctx, tx, keys, c, req)
		return err
	})
	if err == nil {
		out.Returned += did.Returned
		out.Dead += did.Dead
		out.Unknown += did.Unknown
	}
	return err
}

// giveBack moves the rows of a claim that has no owner any more. Under
// AtMostOnce a row that is claimed was never begun, so its attempt is given back.
func (s *store) giveBack(ctx context.Context, q dialect.Querier, keys dialect.Keys, c seenClaim, req sendonce.ReapRequest) (did sendonce.Reaped, err error) {
	sortKeys(keys)
	args := dialect.Args{
		"keys": keys, "token": c.token, "last": lastBefore(req.MaxAttempts),
		"reason": s.fit("the worker vanished: " + c.owner), "doubt": max(time.Since(c.made).Microseconds(), 1),
	}
	run := func(st *dialect.Stmt, into *int) {
		if err == nil {
			var n int64
			n, err = s.exec(ctx, q, "give rows back", st, args)
			*into += int(n)
		}
	}
	run(s.reap.sendingUnknown, &did.Unknown)
	if c.mode == int64(sendonce.AtMostOnce) {
		run(s.reap.claimedBackUncharged, &did.Returned)
		return did, err
	}
	if c.alone {
		run(s.reap.deadAlone, &did.Dead)
	}
	run(s.reap.claimedBack, &did.Returned)
	return did, err
}
