package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sendonce/sendonce/examples/internal/cli"
)

// verdict is what the ledger shows.
type verdict struct {
	made      map[string]int // invoices, by instance
	asked     int
	customers int
	retried   int // tries that failed and were repeated
	cut       int // invoices that a killed instance had begun, and another one made
	overlaps  int // begun while another one of the customer was not ended
	disorder  int // begun after one that was asked for later
	numbers   int // with a number that is not the next one
	lost      int // accepted, and not made
	twice     int // begun again although nothing was killed or failed
	stale     int // begun with a fence that is not larger than the one before
}

// lane is the work for one customer.
type lane struct {
	open   *entry // begun, and not ended
	last   string // the request that was begun last
	fence  string
	number int
}

// judge goes through the ledger line by line.
func judge(entries []entry, answers []answer, all []*instance) verdict {
	killed := map[string]bool{}
	for _, i := range all {
		killed[i.address] = i.killed
	}
	v := verdict{made: map[string]int{}, asked: len(answers)}
	lanes, done := map[string]*lane{}, map[string]entry{}
	for _, e := range entries {
		l := lanes[e.Customer]
		if l == nil {
			l = &lane{}
			lanes[e.Customer] = l
		}
		switch e.Step {
		case begun:
			v.begun(l, e, done, killed)
		case failed:
			l.open = nil
			v.retried++
		case made:
			v.ended(l, e, done)
		}
	}
	v.customers = len(lanes)
	v.compare(answers, done)
	return v
}

func (v *verdict) begun(l *lane, e entry, done map[string]entry, killed map[string]bool) {
	before, again := done[e.ID]
	switch {
	case l.open != nil && l.open.ID == e.ID && killed[l.open.Instance]:
		v.cut++
	case l.open != nil:
		v.overlaps++
	case again && killed[before.Instance]: // all but the record of its end was written
		v.cut++
	case again:
		v.twice++
	}
	// Ids sort by arrival.
	if e.ID < l.last {
		v.disorder++
	}
	if len(e.Fence) < len(l.fence) || len(e.Fence) == len(l.fence) && e.Fence <= l.fence {
		v.stale++
	}
	l.open, l.last, l.fence = &e, e.ID, e.Fence
}

func (v *verdict) ended(l *lane, e entry, done map[string]entry) {
	if l.open == nil || l.open.ID != e.ID || l.open.Fence != e.Fence {
		v.overlaps++
	}
	l.open = nil
	if _, again := done[e.ID]; again {
		return
	}
	if l.number++; e.Number != l.number {
		v.numbers++
	}
	done[e.ID] = e
	v.made[e.Instance]++
}

// compare holds the ledger against what clients saw, which knows nothing of ids: an
// invoice that was accepted before another one was asked for has the smaller number.
func (v *verdict) compare(answers []answer, done map[string]entry) {
	slices.SortFunc(answers, func(a, b answer) int { return a.accepted.Compare(b.accepted) })
	byCustomer := map[string][]answer{}
	for _, a := range answers {
		if _, there := done[a.id]; !there {
			v.lost++
			continue
		}
		byCustomer[a.customer] = append(byCustomer[a.customer], a)
	}
	for _, accepted := range byCustomer {
		asked := slices.SortedFunc(slices.Values(accepted), func(a, b answer) int { return a.asked.Compare(b.asked) })
		largest := 0 // number of those accepted before a was asked for
		for _, a := range asked {
			for len(accepted) > 0 && accepted[0].accepted.Before(a.asked) {
				largest = max(largest, done[accepted[0].id].Number)
				accepted = accepted[1:]
			}
			if cmp.Less(done[a.id].Number, largest) {
				v.disorder++
			}
		}
	}
}

func (v *verdict) print(all []*instance) {
	var by []string
	total := 0
	for _, i := range all {
		by = append(by, fmt.Sprintf("%d by %s", v.made[i.address], i.address))
		total += v.made[i.address]
	}
	fmt.Printf("%d invoices made: %s; %d at the second try, %d begun by an instance that was killed, and then by the other one\n",
		total, strings.Join(by, ", "), v.retried, v.cut)
	fmt.Printf("the ledger shows: %d lost, %d twice, %d out of order, %d beside another one of the customer, %d with a wrong number, %d with a stale fence\n",
		v.lost, v.twice, v.disorder, v.overlaps, v.numbers, v.stale)
}

func (v *verdict) failed() error {
	if v.lost+v.twice+v.disorder+v.overlaps+v.numbers+v.stale > 0 {
		return cli.Failed(errors.New("FAILED: see what the ledger shows"))
	}
	fmt.Printf("OK, in order: %d invoices for %d customers\n", v.asked, v.customers)
	return nil
}
