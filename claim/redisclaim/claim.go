package redisclaim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/sendonce/sendonce"
)

// unlimited stands for no limit of attempts: the largest whole number of a script.
const unlimited = 1 << 53

// Claim implements sendonce.Claimer: one script, whatever the length of the queue.
func (q *Queue[T]) Claim(ctx context.Context, req sendonce.ClaimRequest) (sendonce.Batch[T], error) {
	var b sendonce.Batch[T]
	if req.Limit < 1 || req.Lease < time.Microsecond {
		return b, fmt.Errorf("sendonce: a claim of %d items for %v: both must be positive", req.Limit, req.Lease)
	}
	q.eyes.ownLease(req.Lease)
	token := newToken()
	reply, err := q.run(ctx, "claim", claimScript, q.claimArgs(token, req))
	if err == nil && len(reply) == 2 && reply[0] == "delivery" {
		return b, fmt.Errorf("%w: %s holds items of queue %s under the other one, and this is %q; stop it, or use one Delivery everywhere",
			sendonce.ErrDelivery, str(reply[1]), q.base, req.Delivery)
	}
	if err == nil && (len(reply) != 7 || reply[0] != "claimed") {
		err = fmt.Errorf("sendonce: claim in queue %s: its answer is %v", q.base, reply)
	}
	if err != nil {
		q.lost.add(token, req.Lease)
		return b, err
	}
	q.turn.Store(number(reply[2]))
	q.backFirst.Store(reply[4] == "1")
	b.More, b.Alone = reply[1] == "1", reply[3] == "1"
	list, _ := reply[6].([]any)
	for ; len(list) >= 5; list = list[5:] {
		b.Items = append(b.Items, q.item(str(list[0]), int(number(list[1])), str(list[2]), str(list[3]), list[4], number(reply[5])))
	}
	if len(b.Items) > 0 {
		b.Token = token
	}
	return b, nil
}

func (q *Queue[T]) claimArgs(token int64, req sendonce.ClaimRequest) []any {
	attempts := req.MaxAttempts
	if attempts <= 0 {
		attempts = unlimited
	}
	args := []any{
		token, req.Limit, max(req.Suspects, 0), req.Lease.Microseconds(), attempts, delivery(req.Delivery), req.Owner,
		q.turn.Load(), q.backFirst.Load(),
	}
	return q.lost.appendTo(args)
}

// delivery is the number that scripts have for one.
func delivery(d sendonce.Delivery) int {
	if d == sendonce.AtMostOnce {
		return 2
	}
	return 1
}

// newToken draws the name of a claim: random, so that tokens of earlier lives can't
// be taken for it.
func newToken() int64 {
	for {
		if token := rand.Int64(); token != 0 {
			return token
		}
	}
}

// lostClaims are this process's claims whose replies were lost. Nobody knows what
// they took, so each next claim gives it back, for as long as a claim that was
// delayed on its way may still act.
type lostClaims struct {
	mu   sync.Mutex
	list []lostClaim
}

type lostClaim struct {
	token int64
	until time.Time
}

// maxLost bounds what a long outage leaves; the rest is for Reap.
const maxLost = 100

func (l *lostClaims) add(token int64, lease time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == maxLost {
		l.list = l.list[1:]
	}
	l.list = append(l.list, lostClaim{token, time.Now().Add(lease)})
}

func (l *lostClaims) appendTo(args []any) []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for len(l.list) > 0 && now.After(l.list[0].until) {
		l.list = l.list[1:]
	}
	for _, c := range l.list {
		args = append(args, c.token)
	}
	return args
}

// Extend implements sendonce.Claimer (transition 2). A claim whose lease is over and
// that nobody has taken is extended all the same; one that is missing is not made
// again.
func (q *Queue[T]) Extend(ctx context.Context, tokens []int64) (sendonce.Extension, error) {
	var ext sendonce.Extension
	if len(tokens) == 0 {
		return ext, nil
	}
	reply, err := q.run(ctx, "extend claims", extendScript, tokenArgs(tokens))
	for _, token := range reply {
		ext.Lost = append(ext.Lost, number(token))
	}
	return ext, err
}

// End implements sendonce.Ender (transition 10).
func (q *Queue[T]) End(ctx context.Context, tokens []int64) error {
	if len(tokens) == 0 {
		return nil
	}
	_, err := q.run(ctx, "end claims", finishScript, tokenArgs(tokens))
	return err
}

func tokenArgs(tokens []int64) []any {
	args := make([]any, len(tokens))
	for i, token := range tokens {
		args[i] = token
	}
	return args
}

// Begin implements sendonce.Beginner (transition 3).
func (q *Queue[T]) Begin(ctx context.Context, refs []sendonce.Ref) (lost []sendonce.Ref, err error) {
	if len(refs) == 0 {
		return nil, nil
	}
	reply, err := q.run(ctx, "begin items", beginScript, refArgs(nil, refs))
	if err != nil {
		return nil, err
	}
	for _, v := range reply {
		if i := number(v); i >= 0 && i < int64(len(refs)) {
			lost = append(lost, refs[i])
		}
	}
	return lost, nil
}

func refArgs(args []any, refs []sendonce.Ref) []any {
	for _, ref := range refs {
		args = append(args, str(ref.Key), ref.Token)
	}
	return args
}

// Settle implements sendonce.Claimer (transitions 4 to 8): one script for all
// results.
func (q *Queue[T]) Settle(ctx context.Context, rs []sendonce.Result) ([]sendonce.Exception, error) {
	if len(rs) == 0 {
		return nil, nil
	}
	args := []any{q.options.KeepDone.Microseconds()}
	for _, r := range rs {
		if r.Outcome < sendonce.Done || r.Outcome > sendonce.Unknown {
			return nil, fmt.Errorf("sendonce: the result of item %v has no outcome: %v", r.Key, r.Outcome)
		}
		args = append(args, str(r.Key), r.Token, r.Outcome.String(), r.After.Microseconds(), r.Uncharged, r.Doubt.Microseconds(), r.Reason)
	}
	reply, err := q.run(ctx, "record results", settleScript, args)
	if err != nil {
		return nil, err
	}
	var out []sendonce.Exception
	for ; len(reply) >= 3; reply = reply[3:] {
		i, cause := number(reply[0]), causes[str(reply[1])]
		if i < 0 || i >= int64(len(rs)) || cause == 0 {
			return nil, fmt.Errorf("sendonce: record results in queue %s: its answer is %v", q.base, strconv.Quote(fmt.Sprint(reply)))
		}
		out = append(out, sendonce.Exception{Result: rs[i], Cause: cause, Status: str(reply[2])})
	}
	return out, nil
}

var causes = map[string]sendonce.Cause{
	"late": sendonce.Late, "not held": sendonce.NotHeld, "overtaken": sendonce.Overtaken, "foreign": sendonce.Foreign, "missing": sendonce.Missing,
}
