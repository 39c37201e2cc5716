package strategies

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// zones are parameters of the connection that set the session's time zone.
var zones = map[claim.Dialect][]string{
	claim.Postgres: {"TimeZone=UTC", "TimeZone=Asia/Tokyo", "TimeZone=America/New_York"},
	claim.MySQL:    {"time_zone='%2B00:00'", "time_zone='%2B09:00'&loc=Asia%2FTokyo&parseTime=true", "time_zone='-05:00'"},
	claim.SQLite:   {"_loc=UTC", "_loc=Asia/Tokyo", "_loc=America/New_York"},
}

// zoned makes a Claimer whose session is in each of the zones, with the columns of
// the table of a type without one.
func zoned(t *testing.T, p *combo.Place, rows int) (tb *combo.Table, claimers []combo.Claimer) {
	tb = p.Table(t, 0)
	if p.Database.Dialect == claim.Postgres {
		tb.Exec(t, "ALTER TABLE "+tb.Name+" ALTER next_attempt TYPE timestamp, ALTER done_at TYPE timestamp")
	}
	tb.Add(t, rows)
	for _, zone := range zones[p.Database.Dialect] {
		c, _ := tb.Spec(strings.Split(zone, "&")...).Open(t)
		claimers = append(claimers, c)
	}
	return tb, claimers
}

// docs/faults.md, 5: workers whose sessions are in three zones, on columns without
// one, send each row once, and see each other's leases and delays as they are.
func TestFault05_SessionsInSeveralZones(t *testing.T) {
	combo.Each(t, func(t *testing.T, p *combo.Place) {
		t.Run("drain", func(t *testing.T) {
			tb, claimers := zoned(t, p, 120)
			exactlyOnce(t, tb, drain(t, once, claimers...), oneInTwenty)
		})
		t.Run("leases and delays", func(t *testing.T) {
			tb, claimers := zoned(t, p, 30)
			oneClock(t, tb, claimers)
		})
	})
}

// oneClock has each Claimer write, and the others compare.
func oneClock(t *testing.T, tb *combo.Table, claimers []combo.Claimer) {
	const delay = 20 * time.Minute // longer than a test and shorter than zones are apart
	req := ask()
	req.Limit, req.Lease = 1, delay
	for _, writer := range claimers {
		var held []sendonce.Batch[combo.Mail]
		for range 2 {
			held = append(held, claimOne(t, writer, req))
		}
		_, err := writer.Settle(t.Context(), []sendonce.Result{{
			Key: held[0].Items[0].Key, Token: held[0].Token, Outcome: sendonce.Retry, After: delay,
		}})
		require.NoError(t, err)
		for _, other := range claimers {
			r, err := other.Reap(t.Context(), sendonce.ReapRequest{MaxAttempts: 5, ClockOnly: true})
			require.NoError(t, err)
			assert.Zero(t, r.Returned+r.Dead+r.Unknown, "a live claim was taken")
			b, err := other.Claim(t.Context(), sendonce.ClaimRequest{Limit: 1000, Lease: delay, MaxAttempts: 5})
			require.NoError(t, err)
			var rs []sendonce.Result
			for _, item := range b.Items {
				assert.NotEqual(t, held[0].Items[0].Key, item.Key, "a row that is due later was handed out")
				rs = append(rs, sendonce.Result{Key: item.Key, Token: b.Token, Outcome: sendonce.Released})
			}
			_, err = other.Settle(t.Context(), rs)
			require.NoError(t, err)
		}
		waits := untilDue(t, tb, held[0].Items[0].Key)
		assert.Greater(t, waits, delay-4*time.Minute)
		assert.LessOrEqual(t, waits, delay+time.Second)
	}
}

// claimOne claims until it has something: rows that come back are not looked for all
// the time.
func claimOne(t *testing.T, c combo.Claimer, req sendonce.ClaimRequest) sendonce.Batch[combo.Mail] {
	t.Helper()
	for range 200 {
		b, err := c.Claim(t.Context(), req)
		require.NoError(t, err)
		if len(b.Items) > 0 {
			return b
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nothing could be claimed")
	return sendonce.Batch[combo.Mail]{}
}

// untilDue is how long the row has to wait by the database's clock, in UTC.
func untilDue(t *testing.T, tb *combo.Table, key sendonce.Key) time.Duration {
	seconds := map[claim.Dialect]string{
		claim.Postgres: "extract(epoch FROM next_attempt - timezone('UTC', clock_timestamp()))",
		claim.MySQL:    "TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), next_attempt) / 1000000.0",
		claim.SQLite:   "(julianday(next_attempt) - julianday('now')) * 86400.0",
	}[tb.Database.Dialect]
	var s float64
	require.NoError(t, tb.Admin.Get(&s, tb.Admin.Rebind("SELECT "+seconds+" FROM "+tb.Name+" WHERE id = ?"), key))
	return time.Duration(s * float64(time.Second))
}

// docs/faults.md, 5: where a type would depend on the session, start-up refuses the
// column by its name and type.
func TestFault05_RefusesTypesThatConvert(t *testing.T) {
	for kind, d := range map[string]combo.Database{"timestamp": combo.MariaDB, "date": combo.Postgres, "time without time zone": combo.Postgres} {
		t.Run(d.Name+"/"+kind, func(t *testing.T) {
			tb := combo.Combo{Strategy: combo.Atomic, Database: d, Key: "bigint"}.Start(t).Table(t, 1)
			if d.Dialect == claim.MySQL {
				tb.Exec(t, "ALTER TABLE "+tb.Name+" MODIFY next_attempt timestamp NULL")
			} else {
				tb.Exec(t, "ALTER TABLE "+tb.Name+" DROP next_attempt")
				tb.Exec(t, "ALTER TABLE "+tb.Name+" ADD next_attempt "+kind)
			}
			for _, s := range d.Strategies() {
				spec := tb.Spec()
				spec.Strategy = s
				l, err := spec.Dial()
				require.NoError(t, err)
				t.Cleanup(l.Close)
				if s == combo.LockedSQL || s == combo.LockedRedis {
					continue // the same as with memlock, after the lock's own table
				}
				_, err = spec.Claimer(t.Context(), l)
				assert.ErrorContains(t, err, `"next_attempt"`, s)
				assert.ErrorContains(t, err, kind, s)
			}
		})
	}
}

// docs/faults.md, 5: processes whose clocks are ten minutes ahead of the database's,
// or behind it. A Go process reads its clock from the kernel, so it is the server
// that is set off.
func TestFault05_ClocksTenMinutesOff(t *testing.T) {
	for _, off := range []string{"+600", "-600"} {
		t.Run("Postgres"+off, func(t *testing.T) {
			apart(t, combo.Postgres, servers.StartPostgres(t, fakeTime(t, off)).Database)
		})
		t.Run("MariaDB"+off, func(t *testing.T) {
			apart(t, combo.MariaDB, servers.StartMariaDB(t, fakeTime(t, off)).Database)
		})
	}
}

func apart(t *testing.T, d combo.Database, at *servers.Database) {
	for _, s := range d.Strategies() {
		t.Run(string(s), func(t *testing.T) {
			tb := combo.Combo{Strategy: s, Database: d, Key: "bigint"}.On(t, at).Table(t, 60)
			now := map[claim.Dialect]string{claim.Postgres: "extract(epoch FROM clock_timestamp())", claim.MySQL: "UNIX_TIMESTAMP(SYSDATE(6)) + 0e0"}[d.Dialect]
			var seconds float64
			require.NoError(t, tb.Admin.Get(&seconds, "SELECT "+now))
			off := time.Since(time.UnixMilli(int64(seconds * 1000))).Abs()
			require.Greater(t, off, 8*time.Minute, "the server's clock is not set off")
			exactlyOnce(t, tb, drain(t, once, tb.Worker(t), tb.Worker(t)), oneInTwenty)
		})
	}
}
