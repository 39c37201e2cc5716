package nthop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
	"github.com/sendonce/sendonce/lock/memlock"
	"github.com/sendonce/sendonce/partition"
)

const maxAttempts = 3

// part is what a row does in the play.
type part struct {
	name     string
	set      string // how it stands at first, if it is not fresh
	fails    bool   // its first send here fails
	refused  bool   // it can never be sent
	vanished bool   // a worker that vanished holds it
	sends    int
	status   int // at the end
	attempts int
}

// The states, as the default mapping has them.
const (
	done    = 3
	dead    = 4
	unknown = 6
)

// past is when rows became due, and the vanished worker's lease ended.
const past = "'2020-01-01 00:00:00'"

// parts are the rows of a table, in the order of their keys.
func parts(c combo.Combo, d sendonce.Delivery) []part {
	var all []part
	for range 6 {
		all = append(all, part{name: "fresh", sends: 1, status: done, attempts: 1})
	}
	all = append(
		all,
		part{name: "one that fails once", fails: true, sends: 2, status: done, attempts: 2},
		part{name: "one that can't be sent", refused: true, sends: 1, status: dead, attempts: 1},
		part{name: "one that came back", set: "attempts = 1, next_attempt = " + past, sends: 1, status: done, attempts: 2},
		part{name: "a suspect", set: "attempts = 1, token = 71, next_attempt = " + past, sends: 1, status: done, attempts: 2},
		part{name: "a suspect on its last attempt", set: "attempts = 2, token = 72, next_attempt = " + past, sends: 1, status: done, attempts: 3},
	)
	if c.Strategy == combo.Unmarked { // which has no claims to be taken back
		return all
	}
	held := part{name: "one that is held", set: "attempts = 1, token = 73, status = 1", vanished: true, sends: 1, status: done, attempts: 2}
	if d == sendonce.AtMostOnce {
		held.attempts = 1 // its send was never begun
		all = append(all, part{name: "one whose send had begun", set: "attempts = 1, token = 73, status = 2", vanished: true, status: unknown, attempts: 1})
	}
	return append(all, held)
}

// setting is a strategy on a database, under one promise.
type setting struct {
	combo.Combo
	delivery sendonce.Delivery
}

func (s setting) name() string {
	return s.Database.Name + "/" + s.role()
}

func (s setting) role() string { return fmt.Sprintf("%s/%v", s.Strategy, s.delivery) }

// settings are all strategies that the database can do, under the promises that
// they can make.
func settings(d combo.Database) []setting {
	var all []setting
	for _, s := range append(d.Strategies(), combo.Serial, combo.Unmarked) {
		c := combo.Combo{Strategy: s, Database: d, Key: "bigint"}
		all = append(all, setting{c, sendonce.AtLeastOnce})
		if s != combo.Unmarked {
			all = append(all, setting{c, sendonce.AtMostOnce})
		}
	}
	return all
}

// stage is where the runs of a setting take place: each has a table of its own.
type stage struct {
	setting
	parts []part
	place *combo.Place
	pool  *sqlx.DB     // nil on SQLite, where each run has a file
	model *combo.Table // on SQLite: the file that the others are copies of
	dir   string
}

func (s setting) stage(t *testing.T) *stage {
	t.Helper()
	st := &stage{setting: s, parts: parts(s.Combo, s.delivery), place: s.Start(t)}
	if s.Database.Dialect != claim.SQLite {
		st.pool = st.place.At.Open(t, s.Database.Driver, s.Database.Params...)
		st.pool.SetMaxOpenConns(4)
		return st
	}
	st.model, st.dir = st.fill(t, st.place.Table(t, len(st.parts))), fastDir(t)
	st.model.Exec(t, "PRAGMA wal_checkpoint(TRUNCATE)")
	require.NoError(t, st.model.Admin.Close())
	return st
}

// fastDir is in memory where that can be had: a disk that is busy with other things
// can hold a write up for longer than the leases are here.
func fastDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sendonce-nthop-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// fill gives the rows of a table their parts.
func (st *stage) fill(t *testing.T, tb *combo.Table) *combo.Table {
	t.Helper()
	var held []string
	for i, p := range st.parts {
		if p.set != "" {
			tb.Exec(t, fmt.Sprintf("UPDATE %s SET %s WHERE id = %v", tb.Name, p.set, tb.Keys[i]))
		}
		if p.vanished {
			held = append(held, fmt.Sprint(tb.Keys[i]))
		}
	}
	if len(held) > 0 {
		token := 73
		if st.pool != nil { // the claims of all tables are in one
			token += 1000 * int(tables.Add(1))
			tb.Exec(t, fmt.Sprintf("UPDATE %s SET token = %d WHERE token = 73", tb.Name, token))
		}
		tb.Exec(t, fmt.Sprintf("INSERT INTO sendonce_claims (token, source, owner, row_keys, mode, alone, lease_ms, since, until) "+
			"VALUES (%d, '%s', 'vanished', '[%s]', %d, 0, 480, %s, %s)", token, tb.Name, strings.Join(held, ","), st.delivery, past, past))
	}
	return tb
}

// field is the table of one run, and how to reach it.
type field struct {
	spec  combo.Spec
	name  string
	keys  []sendonce.Key
	admin *sqlx.DB
	close func()
}

// field makes the table of run n. It is called by the test itself.
func (st *stage) field(t *testing.T, n int) *field {
	t.Helper()
	tb, f := st.model, &field{close: func() {}}
	if tb == nil {
		tb = st.fill(t, st.place.TableOn(t, st.pool, len(st.parts)))
		f.admin = st.pool
	}
	f.spec, f.name, f.keys = tb.Spec(), tb.Name, tb.Keys
	f.spec.Partitions = partition.Assignment{Count: 2, Mine: []int{0, 1}}
	f.spec.Memory = memlock.New()
	f.spec.RedisPrefix += fmt.Sprint(n, ":")
	f.spec.Conns = 4
	if st.model == nil {
		return f
	}
	at := servers.Database{Kind: "sqlite", Name: filepath.Join(st.dir, fmt.Sprint(n, ".db"))}
	bytes, err := os.ReadFile(st.place.At.Name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(at.Name, bytes, 0o600))
	// Nothing here loses power: what matters is who sees what, and when.
	f.spec.DSN = at.DSNFor(st.Database.Driver, "_synchronous=OFF")
	f.admin, err = sqlx.Open(f.spec.Driver, f.spec.DSN)
	require.NoError(t, err)
	f.close = func() {
		_ = f.admin.Close()
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(at.Name + suffix)
		}
	}
	return f
}

// sendTime is long enough that claims are renewed in a run, and for two sends of
// one row to be seen to overlap.
const sendTime = 100 * time.Millisecond

// sender sends as the parts say. It ignores its context: what it says was sent was.
func (st *stage) sender(f *field) sendonce.Sender[combo.Mail] {
	played := map[sendonce.Key]part{}
	for i, p := range st.parts {
		played[f.keys[i]] = p
	}
	return sendonce.SenderFunc[combo.Mail](func(_ context.Context, item sendonce.Item[combo.Mail]) error {
		time.Sleep(sendTime)
		switch p := played[item.Key]; {
		case item.Value.Value != combo.ValueOf(item.Key):
			return sendonce.Permanent(fmt.Errorf("the value of row %v is %q", item.Key, item.Value.Value))
		case p.refused:
			return sendonce.Permanent(errors.New("no such address"))
		case p.fails && item.Attempt == 1:
			return sendonce.NotSent(errors.New("not now"))
		}
		return nil
	})
}
