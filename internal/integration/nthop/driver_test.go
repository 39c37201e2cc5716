package nthop

import (
	"context"
	"database/sql"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce/internal/integration/servers"
)

// pool is an SQLite file with a table of three rows, reached through an Injector
// that is told the fault afterwards: f.N counts from then on.
func pool(t *testing.T, f Fault) (*sql.DB, *Injector) {
	t.Helper()
	at := servers.SQLite(t)
	plain := at.Open(t, "sqlite3")
	plain.MustExec("CREATE TABLE ns (n integer)")
	plain.MustExec("INSERT INTO ns VALUES (1), (2), (3)")
	inner, err := ConnectorOf(plain.Driver(), at.DSNFor("sqlite3"))
	require.NoError(t, err)
	inj := New(Fault{})
	db := sql.OpenDB(inj.Connector(inner))
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { assert.NoError(t, db.Close()); assert.Zero(t, inj.Open()) })
	require.NoError(t, db.Ping())
	inj.fault, inj.n = f, 0
	return db, inj
}

func sum(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRow("SELECT SUM(n) FROM ns").Scan(&n))
	return n
}

const add = "UPDATE ns SET n = n + 1"

func TestErrors(t *testing.T) {
	for _, broken := range []bool{false, true} {
		for kind, want := range map[Kind]int{ErrorBefore: 6, ErrorAfter: 9} {
			db, inj := pool(t, Fault{N: 1, Kind: kind, Broken: broken})
			_, err := db.Exec(add)
			require.ErrorIs(t, err, ErrFault, kind)
			assert.Equal(t, "exec "+add, inj.Fired())
			assert.Equal(t, want, sum(t, db), kind)
			_, err = db.Exec(add)
			require.NoError(t, err, "it fails once")
			assert.Equal(t, want+3, sum(t, db))
		}
	}
}

func TestABrokenConnectionIsReplaced(t *testing.T) {
	for broken, connects := range map[bool]int{false: 0, true: 1} {
		db, inj := pool(t, Fault{N: 1, Kind: ErrorBefore, Broken: broken})
		_, err := db.Exec(add)
		require.ErrorIs(t, err, ErrFault)
		_, err = db.Exec(add)
		require.NoError(t, err)
		assert.Equal(t, 2+connects, inj.Count(), "two that change rows, and a new connection")
		assert.Equal(t, 1, inj.Open())
	}
}

func TestHangs(t *testing.T) {
	for kind, want := range map[Kind]int{HangBefore: 6, HangAfter: 9} {
		db, inj := pool(t, Fault{N: 1, Kind: kind})
		began := time.Now()
		hung := false
		inj.Hanging = func() { hung = true }
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := db.ExecContext(ctx, add)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
		assert.True(t, hung)
		assert.Equal(t, want, sum(t, db), kind)
	}
}

// Where nothing bounds a call, it ends all the same, and the connection is broken.
func TestHangsWithoutADeadline(t *testing.T) {
	db, inj := pool(t, Fault{N: 1, Kind: HangAfter})
	_, err := db.Exec(add)
	require.ErrorIs(t, err, ErrFault)
	assert.Equal(t, 9, sum(t, db))
	assert.Equal(t, 4, inj.Count(), "the exec, a new connection, the query, and its reading")
}

func TestCounts(t *testing.T) {
	for kind, want := range map[Kind]int64{NoneAffected: 0, OneMore: 4, NoCount: 0} {
		db, inj := pool(t, Fault{N: 1, Kind: kind})
		assert.Equal(t, 6, sum(t, db))
		require.Zero(t, inj.Count(), "only what changes rows counts")
		res, err := db.Exec(add)
		require.NoError(t, err)
		n, err := res.RowsAffected()
		assert.Equal(t, want, n, kind)
		assert.Equal(t, kind == NoCount, err != nil)
		res, err = db.Exec(add)
		require.NoError(t, err)
		n, err = res.RowsAffected()
		require.NoError(t, err)
		assert.Equal(t, int64(3), n, "it happens once")
		assert.Equal(t, 12, sum(t, db))
	}
}

// Reading a result fails at the planned row. If it acted before, all of it has.
func TestReading(t *testing.T) {
	for kind, row := range map[Kind]int{ErrorBefore: 1, ErrorAfter: 2} {
		db, inj := pool(t, Fault{N: 2, Kind: kind, Row: row})
		rows, err := db.Query(add + " RETURNING n")
		require.NoError(t, err)
		read := 0
		for rows.Next() {
			read++
		}
		require.ErrorIs(t, rows.Err(), ErrFault)
		require.NoError(t, rows.Close())
		assert.Equal(t, row, read)
		assert.Equal(t, "read "+add+" RETURNING n", inj.Fired())
		assert.Equal(t, 9, sum(t, db))
	}
	db, _ := pool(t, Fault{N: 2, Kind: ErrorBefore, Row: 9})
	rows, err := db.Query("SELECT n FROM ns")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
	}
	require.ErrorIs(t, rows.Err(), ErrFault, "a short result fails at its end")
}

func TestTransactions(t *testing.T) {
	for _, c := range []struct {
		n    int
		kind Kind
		want int
	}{{1, ErrorBefore, 6}, {1, ErrorAfter, 6}, {3, ErrorBefore, 6}, {3, ErrorAfter, 9}, {3, HangBefore, 6}, {3, HangAfter, 9}} {
		db, inj := pool(t, Fault{N: c.n, Kind: c.kind})
		err := func() error {
			tx, err := db.Begin()
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if _, err := tx.Exec(add); err != nil {
				return err
			}
			return tx.Commit()
		}()
		require.ErrorIs(t, err, ErrFault, "%v", c)
		assert.Equal(t, c.want, sum(t, db), "%v: %s", c, inj.Fired())
		assert.Zero(t, inj.InTransaction())
	}
}

func TestATransactionThatIsLeftOpenIsSeen(t *testing.T) {
	db, inj := pool(t, Fault{})
	_, err := db.Exec("BEGIN IMMEDIATE")
	require.NoError(t, err)
	assert.Equal(t, 1, inj.InTransaction())
	_, err = db.Exec("ROLLBACK")
	require.NoError(t, err)
	assert.Zero(t, inj.InTransaction())
}

func TestConnecting(t *testing.T) {
	for _, kind := range []Kind{ErrorBefore, ErrorAfter} {
		db, inj := pool(t, Fault{N: 1, Kind: kind})
		db.SetMaxIdleConns(-1) // the next operation opens a connection
		require.ErrorIs(t, db.Ping(), ErrFault)
		assert.Equal(t, "connect", inj.Fired())
		require.NoError(t, db.Ping())
	}
}

func TestPreparing(t *testing.T) {
	db, inj := pool(t, Fault{N: 2, Kind: ErrorAfter})
	s, err := db.Prepare(add)
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Exec()
	require.ErrorIs(t, err, ErrFault)
	assert.Equal(t, "exec "+add, inj.Fired())
	assert.Equal(t, 9, sum(t, db))
}
