package dialect

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sendonce/sendonce"
)

// pgError is what both PostgreSQL drivers' errors have in common.
type pgError string

func (e pgError) Error() string    { return "ERROR: something (SQLSTATE " + string(e) + ")" }
func (e pgError) SQLState() string { return string(e) }

// liteError is modernc's error: its code is the extended one.
type liteError struct {
	msg  string
	code int
}

func (e liteError) Error() string { return e.msg }
func (e liteError) Code() int     { return e.code }

// mattnError has the code in a field, and the text of SQLite.
type mattnError struct{ Code int }

func (e mattnError) Error() string {
	return map[int]string{5: "database is locked", 6: "database table is locked", 8: "attempt to write a readonly database", 14: "unable to open database file", 19: "CHECK constraint failed: c", 1: "no such table: x"}[e.Code]
}

// classified is an error with the class that it has on a database.
type classified struct {
	err  error
	want Class
}

var classes = map[Dialect][]classified{
	Postgres: {
		{pgError("40001"), Transient},
		{pgError("40P01"), Transient},
		{pgError("55P03"), Transient},
		{pgError("28P01"), Fatal},
		{pgError("3D000"), Fatal},
		{pgError("42P01"), Fatal},
		{pgError("42703"), Fatal},
		{pgError("42501"), Fatal},
		{pgError("22001"), BadData},
		{pgError("22021"), BadData},
		{pgError("23514"), BadData},
		{pgError("23505"), BadData},
		{pgError("P0001"), BadData},
		{pgError("57P01"), Other}, // the server goes down: repeated like any other
		{pgError("53300"), Other},
		{pgError("25006"), Other}, // read-only: a failover
		{pgError("XX"), Other},
		{errors.New("connection reset by peer"), Other},
	},
	MySQL: {
		{errors.New("Error 1213 (40001): Deadlock found when trying to get lock"), Transient},
		{errors.New("Error 1205 (HY000): Lock wait timeout exceeded"), Transient},
		{errors.New("Error 1020: Record has changed since last read"), Transient},
		{errors.New("Error 1146 (42S02): Table 'x' doesn't exist"), Fatal},
		{errors.New("Error 1045 (28000): Access denied"), Fatal},
		{errors.New("Error 1054 (42S22): Unknown column"), Fatal},
		{errors.New("Error 1406 (22001): Data too long for column"), BadData},
		{errors.New("Error 1366 (22007): Incorrect string value"), BadData},
		{errors.New("Error 1644 (45000): a trigger says no"), BadData},
		{errors.New("Error 4025 (23000): CONSTRAINT failed"), BadData},
		{errors.New("Error 3819 (HY000): Check constraint is violated"), BadData},
		{errors.New("Error 1062 (23000): Duplicate entry"), BadData},
		{errors.New("Error 1452 (23000): a foreign key constraint fails"), BadData},
		{errors.New("Error 1690 (22003): BIGINT UNSIGNED value is out of range"), BadData},
		{errors.New("Error 1290 (HY000): running with the --read-only option"), Other},
		{errors.New("Error 1040 (08004): Too many connections"), Other},
		{errors.New("invalid connection"), Other},
		{errors.New("sendonce: Error 1213 in another text"), Other},
	},
	SQLite: {
		{liteError{"database is locked (5) (SQLITE_BUSY)", 5}, Transient},
		{liteError{"x", 5 | 2<<8}, Transient}, // SQLITE_BUSY_SNAPSHOT
		{liteError{"x", 6 | 1<<8}, Transient}, // SQLITE_LOCKED_SHAREDCACHE
		{liteError{"x", 8 | 2<<8}, Fatal},
		{liteError{"x", 26}, Fatal},
		{liteError{"x", 19 | 5<<8}, BadData}, // NOTNULL
		{liteError{"x", 18}, BadData},
		{liteError{"no such column: y", 1}, Fatal},
		{liteError{"disk I/O error", 10}, Other},
		{liteError{"database or disk is full", 13}, Other},
		{mattnError{5}, Transient},
		{mattnError{6}, Transient},
		{mattnError{8}, Fatal},
		{mattnError{14}, Fatal},
		{mattnError{19}, BadData},
		{mattnError{1}, Fatal},
		{errors.New("interrupted"), Other},
	},
}

func TestClassify(t *testing.T) {
	for d, checks := range classes {
		for _, c := range checks {
			for _, err := range []error{c.err, fmt.Errorf("wrapped: %w", fmt.Errorf("twice: %w", c.err)), Wrap(d, "do it", c.err)} {
				assert.Equal(t, c.want, d.Classify(err), "%s: %v", d.Name(), err)
			}
			wrapped := Wrap(d, "do it", c.err)
			assert.Equal(t, c.want == Transient, sendonce.IsTransient(wrapped))
			assert.Equal(t, c.want == Fatal, sendonce.IsFatal(wrapped))
			assert.ErrorIs(t, wrapped, c.err)
			assert.Equal(t, "sendonce: do it: "+c.err.Error(), wrapped.Error())
		}
	}
	assert.NoError(t, Wrap(Postgres, "do it", nil))
}

func TestKinds(t *testing.T) {
	for base, want := range map[string]Kind{
		"int2": KindInt, "int4": KindInt, "int8": KindInt, "text": KindText, "varchar": KindText, "bpchar": KindText, "citext": KindText,
		"uuid": KindUUID, "bool": KindBool, "timestamptz": KindTime, "timestamp": KindTime,
		"numeric": KindOther, "float8": KindOther, "bytea": KindOther, "date": KindOther, "jsonb": KindOther,
	} {
		assert.Equal(t, want, pgKind(base, "b"), base)
	}
	assert.Equal(t, KindText, pgKind("mood", "e"), "an enum is compared with texts")
	for full, want := range map[string]Kind{
		"tinyint(1)": KindInt, "bigint(20)": KindInt, "bigint(20) unsigned": KindUint, "int unsigned": KindUint, "varchar(20)": KindText, "char(36)": KindText,
		"longtext": KindText, "enum('unsigned','b')": KindText, "uuid": KindUUID, "datetime(6)": KindTime, "datetime": KindTime,
		"timestamp": KindOther, "decimal(10,0)": KindOther, "varbinary(16)": KindOther, "binary(16)": KindOther, "float": KindOther, "json": KindOther,
	} {
		base := strings.FieldsFunc(full, func(r rune) bool { return r == '(' || r == ' ' })[0]
		assert.Equal(t, want, myKind(base, full), full)
	}
	for declared, want := range map[string]Kind{
		"INTEGER": KindInt, "int": KindInt, "UNSIGNED BIG INT": KindInt, "TEXT": KindText, "varchar(20)": KindText, "NVARCHAR": KindText, "CLOB": KindText, "uuid": KindText,
		"DATETIME": KindTime, "timestamp": KindTime, "DATE": KindTime, "BOOLEAN": KindBool, "bool": KindBool, "BLOB": KindOther, "REAL": KindOther, "": KindOther,
	} {
		assert.Equal(t, want, sqliteKind(declared), declared)
	}
	for k := KindOther; k <= KindTime; k++ {
		assert.NotEmpty(t, k.String())
	}
}

func TestSkipLockedSince(t *testing.T) {
	for _, x := range []struct {
		d             Dialect
		version, want string
	}{
		{Postgres, "15.4 (Debian 15.4-1)", ""},
		{Postgres, "9.5", ""},
		{Postgres, "9.4.26", "PostgreSQL 9.5"},
		{MySQL, "8.0.36", ""},
		{MySQL, "8.0.0-dmr", "MySQL 8.0.1"},
		{MySQL, "8.4.0-log", ""},
		{MySQL, "5.7.44-log", "MySQL 8.0.1"},
		{MySQL, "9.1.0", ""},
		{MySQL, "10.11.6-MariaDB-1", ""},
		{MySQL, "10.6.0-MariaDB", ""},
		{MySQL, "10.5.23-MariaDB", "MariaDB 10.6"},
		{MySQL, "5.5.5-10.11.6-MariaDB", ""},
		{MySQL, "5.5.5-10.3.1-MariaDB", "MariaDB 10.6"},
		{MySQL, "11.4.2-MariaDB", ""},
		{SQLite, "3.46.0", "another database than SQLite 3.46.0"},
	} {
		assert.Equal(t, x.want, x.d.SkipLockedSince(x.version), x.version)
	}
}

func TestQualified(t *testing.T) {
	assert.Equal(t, `"t"`, Qualified(Postgres, "", "t"))
	assert.Equal(t, `"a""b"."t"`, Qualified(SQLite, `a"b`, "t"))
	assert.Equal(t, "`a`.`t.u`", Qualified(MySQL, "a", "t.u"))
}

func TestBadPlan(t *testing.T) {
	for _, x := range []struct {
		d    Dialect
		plan string
		bad  bool
	}{
		{Postgres, "query plan=Limit (cost=0)\nquery plan=->  Index Scan using x", false},
		{Postgres, "query plan=->  Seq Scan on x", true},
		{Postgres, "query plan=->  Sort  (cost=1)", true},
		{MySQL, "id=1 select_type=SIMPLE table=x type=range extra=Using where ", false},
		{MySQL, "id=1 select_type=SIMPLE table=x type=ALL extra=Using where ", true},
		{MySQL, "id=1 table=x type=ref extra=Using where; Using filesort ", true},
		{SQLite, "id=1 detail=SEARCH x USING INDEX y ", false},
		{SQLite, "id=1 detail=SCAN x ", true},
		{SQLite, "id=1 detail=USE TEMP B-TREE FOR ORDER BY ", true},
	} {
		assert.Equal(t, x.bad, x.d.BadPlan(x.plan) != "", x.plan)
	}
}
