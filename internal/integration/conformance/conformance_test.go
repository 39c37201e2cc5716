// Package conformance runs the suite that every Claimer passes over each strategy
// on each database.
package conformance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/claim/claimtest"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

func TestMain(m *testing.M) { servers.Main(m) }

// combinations are all strategies on all databases, and with other drivers and
// keys, each once or more per database.
func combinations() []combo.Combo {
	return append(combo.All(),
		combo.Combo{Strategy: combo.Atomic, Database: combo.PostgresPQ, Key: "uuid"},
		combo.Combo{Strategy: combo.SkipLocked, Database: combo.PostgresPQ, Key: "text"},
		combo.Combo{Strategy: combo.Atomic, Database: combo.FoundRows, Key: "bigint unsigned"},
		combo.Combo{Strategy: combo.SkipLocked, Database: combo.FoundRows, Key: "varchar(60)"},
		combo.Combo{Strategy: combo.Atomic, Database: combo.ModernC, Key: "text"},
	)
}

// Each database has two lanes: most of the time cases wait for leases.
func TestConformance(t *testing.T) {
	type lane struct {
		of     claim.Dialect
		second bool
	}
	lanes := map[lane][]combo.Combo{}
	for i, c := range combinations() {
		if testing.Short() && (c.Strategy != combo.Atomic || c.Key != "bigint") {
			continue // one of each kind of database: those that need a server skip
		}
		l := lane{c.Database.Dialect, i%2 == 1}
		lanes[l] = append(lanes[l], c)
	}
	var wg sync.WaitGroup
	for _, combos := range lanes {
		wg.Go(func() {
			for _, c := range combos {
				t.Run(c.Name(), func(t *testing.T) {
					servers.Ran(t, c.Name())
					claimtest.Run(t, harness(t, c.Start(t), processes, claimtest.Caps{}))
				})
			}
		})
	}
	wg.Wait()
}

// handles makes the Claimers of a store.
type handles func(t testing.TB, tb *combo.Table, n int) []sendonce.Claimer[combo.Mail]

// processes have a Claimer each, with pools of their own.
func processes(t testing.TB, tb *combo.Table, n int) (cs []sendonce.Claimer[combo.Mail]) {
	for range n {
		cs = append(cs, tb.Worker(t))
	}
	return cs
}

// harness makes stores in one database, each a table of its own; on SQLite each
// has a file of its own.
func harness(t testing.TB, p *combo.Place, open handles, caps claimtest.Caps) claimtest.Harness[combo.Mail] {
	admin := p.At.Open(t, p.Database.Driver, p.Database.Params...)
	admin.SetMaxOpenConns(8)
	return claimtest.Harness[combo.Mail]{
		New: func(t testing.TB, rows, n int) *claimtest.Store[combo.Mail] {
			tb := (*combo.Table)(nil)
			if p.Database.Dialect == claim.SQLite {
				tb = p.Combo.Start(t).Table(t, rows)
			} else {
				tb = p.TableOn(t, admin, rows)
			}
			s := &claimtest.Store[combo.Mail]{Keys: tb.Keys, Claimers: open(t, tb, n)}
			hooks(t, s, tb)
			return s
		},
		Caps: caps, Parallel: 8,
	}
}

// states are the names of claimtest in the order of the default States.
var states = []string{claimtest.Pending, claimtest.Claimed, claimtest.Sending, claimtest.Done, claimtest.Dead, claimtest.Skipped, claimtest.Unknown}

// cancelled is how any other name is stored.
const cancelled = 99

func hooks(t testing.TB, s *claimtest.Store[combo.Mail], tb *combo.Table) {
	change := func(statement string, args ...any) error {
		_, err := tb.Admin.ExecContext(t.Context(), tb.Admin.Rebind(statement), args...)
		return err
	}
	var other string
	s.Row = func(key sendonce.Key) (claimtest.Row, error) { return row(t.Context(), tb, key, other) }
	s.Check = func(item sendonce.Item[combo.Mail]) error {
		if want := combo.ValueOf(item.Key); item.Value.Value != want {
			return fmt.Errorf("its value is %q, and not %q", item.Value.Value, want)
		}
		return nil
	}
	s.SetStatus = func(key sendonce.Key, status string) error {
		for i, name := range states {
			if name == status {
				return change("UPDATE "+tb.Name+" SET status = ? WHERE id = ?", i, key)
			}
		}
		other = status
		return change("UPDATE "+tb.Name+" SET status = ? WHERE id = ?", cancelled, key)
	}
	s.Delete = func(key sendonce.Key) error { return change("DELETE FROM "+tb.Name+" WHERE id = ?", key) }
	s.Schedule = func(key sendonce.Key, after time.Duration) error {
		return change("UPDATE "+tb.Name+" SET next_attempt = "+soon(tb.Database.Dialect, after)+" WHERE id = ?", key)
	}
	s.InsertBefore = func() (sendonce.Key, error) {
		k := tb.KeyOf(1)
		return k, change("INSERT INTO "+tb.Name+" (id, value) VALUES (?, ?)", k, combo.ValueOf(k))
	}
	s.Spoil = func(key sendonce.Key) error {
		return change("UPDATE "+tb.Name+" SET value = NULL WHERE id = ?", key)
	}
	s.Requeue = func(key sendonce.Key) error {
		n, err := s.Claimers[0].(interface {
			Requeue(context.Context, claim.Requeue) (int64, error)
		}).Requeue(t.Context(), claim.Requeue{
			From: []sendonce.Outcome{sendonce.Dead, sendonce.Unknown, sendonce.Skipped}, Keys: []sendonce.Key{key},
		})
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows were requeued", n)
		}
		return err
	}
}

func row(ctx context.Context, tb *combo.Table, key sendonce.Key, other string) (claimtest.Row, error) {
	var r struct {
		Status   int            `db:"status"`
		Attempts int            `db:"attempts"`
		Reason   sql.NullString `db:"last_error"`
	}
	err := sqlx.GetContext(ctx, tb.Admin, &r, tb.Admin.Rebind("SELECT status, attempts, last_error FROM "+tb.Name+" WHERE id = ?"), key)
	if errors.Is(err, sql.ErrNoRows) {
		return claimtest.Row{}, nil
	}
	if r.Status < len(states) {
		other = states[r.Status]
	}
	return claimtest.Row{Found: true, Status: other, Attempts: r.Attempts, Reason: r.Reason.String}, err
}

// soon is the database's time after that delay.
func soon(d claim.Dialect, after time.Duration) string {
	ms := strconv.FormatInt(after.Milliseconds(), 10)
	switch d {
	case claim.Postgres:
		return "now() + " + ms + " * interval '1 millisecond'"
	case claim.MySQL:
		return "UTC_TIMESTAMP(6) + INTERVAL " + ms + " * 1000 MICROSECOND"
	}
	return "strftime('%Y-%m-%d %H:%M:%f', 'now', '" + strconv.FormatFloat(after.Seconds(), 'f', 3, 64) + " seconds')"
}
