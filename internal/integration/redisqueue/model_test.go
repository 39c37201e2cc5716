package redisqueue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/redisclaim"
	"github.com/sendonce/sendonce/internal/integration/servers"
)

// Random calls on a queue, and after each one the same on a model of what package
// redisclaim promises: who is next of each key, whose unique key it is, what counts.
func TestQueueIsAsItsModel(t *testing.T) {
	r := servers.Redis(t)
	client := r.Client(t)
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			q := open[string](t, client, fmt.Sprint(r.Prefix, seed, ":"), redisclaim.Options{})
			m := &model{
				T: t, Rand: rand.New(rand.NewPCG(seed, 5)), q: q, raw: raw{t, client, q.Keys()},
				items: map[string]*modelItem{}, unique: map[string]string{},
			}
			for range 250 {
				m.step()
				m.count()
			}
			m.finish()
		})
	}
}

// modelItem is what an item must be.
type modelItem struct {
	id, key, unique string
	place           string
	state           string
	token, last     int64 // it is held by; the last one whose late fact counts
	tried           bool  // and not requeued since
}

type model struct {
	*testing.T
	*rand.Rand
	q      *queue
	raw    raw
	items  map[string]*modelItem
	unique map[string]string // the item that has each
	tokens []int64           // of live claims
}

func (m *model) step() {
	switch n := m.IntN(100); {
	case n < 30:
		m.add()
	case n < 55:
		m.claim(1 + m.IntN(4))
	case n < 85:
		m.settle()
	case n < 90:
		m.vanish()
	case n < 93:
		m.lateFact()
	case n < 95:
		m.resume()
	case n < 98:
		m.requeue()
	default:
		m.remove()
	}
}

// pick returns one of the items in these states, rather an old one; nil: there is none.
func (m *model) pick(states ...string) *modelItem {
	var found []*modelItem
	for _, it := range m.items {
		if slices.Contains(states, it.state) {
			found = append(found, it)
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, func(a, b *modelItem) int { return strings.Compare(a.id, b.id) })
	if m.IntN(2) == 0 {
		return found[0]
	}
	return found[m.IntN(len(found))]
}

func (m *model) add() {
	it := item{Key: []string{"", "a", "b", "c"}[m.IntN(4)], Value: "v"}
	if m.IntN(3) == 0 {
		it.At = time.Unix(int64(1000+m.IntN(20)), 0)
	}
	if m.IntN(4) == 0 {
		it.Unique = []string{"u", "v"}[m.IntN(2)]
	}
	if other, taken := m.unique[it.Unique]; taken {
		refused(m, m.q, it, other, m.items[other].state)
		return
	}
	id := add(m, m.q, it)
	place := id
	if !it.At.IsZero() {
		place = fmt.Sprintf("%016d", it.At.UnixMicro())
	}
	m.items[id] = &modelItem{id: id, key: it.Key, unique: it.Unique, place: place, state: "pending"}
	m.take(m.items[id])
}

func (m *model) take(it *modelItem) {
	if it.unique != "" {
		m.unique[it.unique] = it.id
	}
}

func (m *model) free(it *modelItem) {
	if m.unique[it.unique] == it.id {
		delete(m.unique, it.unique)
	}
}

func (m *model) end(it *modelItem) {
	m.free(it)
	delete(m.items, it.id)
}

// next is the item of a key that must be handed out next; nil: there is none.
func (m *model) next(key string) (first *modelItem) {
	rank := func(it *modelItem) []string {
		if it.tried {
			return []string{""}
		}
		return []string{it.place, it.id}
	}
	for _, it := range m.items {
		switch {
		case it.key != key:
		case it.state == "claimed":
			return nil
		case it.state == "pending" && (first == nil || slices.Compare(rank(it), rank(first)) < 0):
			first = it
		}
	}
	return first
}

func (m *model) claim(limit int) int {
	req := ask(limit)
	req.MaxAttempts = 1000
	b := claim(m, m.q, req)
	for _, got := range b.Items {
		it := m.items[got.Key.(string)]
		require.NotNil(m, it)
		require.Equal(m, "pending", it.state)
		if it.key != "" {
			require.Equal(m, m.next(it.key), it, "the first of key %s", it.key)
		}
		it.state, it.token, it.last = "claimed", b.Token, b.Token
	}
	if len(b.Items) > 0 {
		m.tokens = append(m.tokens, b.Token)
	}
	return len(b.Items)
}

func (m *model) settle() {
	it := m.pick("claimed")
	if it == nil {
		return
	}
	res := sendonce.Result{Key: it.id, Token: it.token, Reason: "because"}
	switch m.IntN(6) {
	case 0, 1:
		res.Outcome = sendonce.Done
		m.end(it)
	case 2:
		res.Outcome, res.Uncharged = sendonce.Retry, m.IntN(2) == 0
		it.state, it.tried, it.last = "pending", true, 0
	case 3:
		res.Outcome = sendonce.Dead
		it.state = "dead"
		m.free(it)
	case 4:
		res.Outcome = sendonce.Unknown
		it.state = "unknown"
	case 5:
		res.Outcome = sendonce.Released
		it.state, it.last = "pending", 0
	}
	settle(m, m.q, res)
}

func (m *model) vanish() {
	if len(m.tokens) == 0 {
		return
	}
	i := m.IntN(len(m.tokens))
	token := m.tokens[i]
	m.tokens = slices.Delete(m.tokens, i, i+1)
	m.raw.vanish(m.q, token)
	for _, it := range m.items {
		if it.state == "claimed" && it.token == token {
			it.state, it.tried = "pending", true
		}
	}
}

// lateFact: a worker that was thought vanished, or who was wrong, says that it did send.
func (m *model) lateFact() {
	if it := m.pick("pending", "dead", "unknown"); it != nil && it.last != 0 {
		settleLate(m, m.q, sendonce.Result{Key: it.id, Token: it.last, Outcome: sendonce.Done})
		m.end(it)
	}
}

func (m *model) resume() {
	it := m.pick("unknown")
	if it == nil {
		return
	}
	n, err := m.q.Resume(m.Context(), []sendonce.Ref{{Key: it.id, Token: it.last}})
	require.NoError(m, err)
	require.Equal(m, 1, n)
	it.state, it.tried, it.last = "pending", false, 0
}

func (m *model) requeue() {
	it := m.pick("dead", "unknown")
	if it == nil {
		return
	}
	n, err := m.q.Requeue(m.Context(), it.id)
	if other := m.unique[it.unique]; other != "" && other != it.id {
		require.ErrorIs(m, err, redisclaim.ErrTaken)
		require.Zero(m, n)
		return
	}
	require.NoError(m, err)
	require.Equal(m, 1, n)
	it.state, it.tried, it.last = "pending", false, 0
	m.take(it)
}

func (m *model) remove() {
	it := m.pick("pending", "claimed", "dead", "unknown")
	if it == nil {
		return
	}
	n, err := m.q.Delete(m.Context(), it.id)
	require.NoError(m, err)
	if it.state == "claimed" {
		require.Zero(m, n)
		return
	}
	require.Equal(m, 1, n)
	m.end(it)
}

func (m *model) count() {
	var want sendonce.Counts
	for _, it := range m.items {
		*map[string]*int64{"pending": &want.Pending, "claimed": &want.Claimed, "dead": &want.Dead, "unknown": &want.Unknown}[it.state]++
	}
	got, err := m.q.Counts(m.Context())
	require.NoError(m, err)
	require.Equal(m, want, got)
}

// finish does all that can be done: nothing stays behind.
func (m *model) finish() {
	for {
		for it := m.pick("claimed"); it != nil; it = m.pick("claimed") {
			settle(m, m.q, sendonce.Result{Key: it.id, Token: it.token, Outcome: sendonce.Done})
			m.end(it)
		}
		// Three kinds of items take turns, so that one claim may find nothing.
		if m.claim(10)+m.claim(10)+m.claim(10) == 0 {
			require.Nil(m, m.pick("pending"))
			return
		}
	}
}
