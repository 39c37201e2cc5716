package unique

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/sender/sendertest"
	"github.com/sendonce/sendonce/sender/unique"
	"github.com/sendonce/sendonce/sender/unique/sqlunique"
)

// scene is a table of the user's and its unique keys.
type scene struct {
	*testing.T
	place place
	admin *sqlx.DB
	app   *process // the application, which inserts rows
	rec   *sendertest.Recorder[mail]
}

// onEach runs f with the rows in PostgreSQL and in MariaDB, and the keys beside them
// and in Redis.
func onEach(t *testing.T, f func(s *scene)) {
	t.Helper()
	for _, d := range []struct {
		name    string
		dialect claim.Dialect
		open    func(testing.TB) *servers.Database
	}{{"Postgres", claim.Postgres, servers.Postgres}, {"MariaDB", claim.MySQL, servers.MariaDB}} {
		for _, inRedis := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/redis=%v", d.name, inRedis), func(t *testing.T) {
				t.Parallel()
				f(newScene(t, d.dialect, d.open(t), inRedis))
			})
		}
	}
}

func newScene(t *testing.T, d claim.Dialect, at *servers.Database, inRedis bool) *scene {
	t.Helper()
	s := &scene{T: t, admin: at.Open(t, ""), place: place{Driver: at.Driver, DSN: at.DSN, Dialect: d}}
	if inRedis {
		r := servers.Redis(t)
		s.place.RedisAddr, s.place.RedisDB, s.place.Prefix = r.Addr, r.DB, r.Prefix
	}
	s.exec("CREATE TABLE notify (id bigint PRIMARY KEY, recipient varchar(100) NOT NULL)")
	require.NoError(t, claim.Migrate(t.Context(), s.admin, d, table(), nil))
	require.NoError(t, sqlunique.Migrate(t.Context(), s.admin.DB, sqlunique.Dialect(d), nil))
	s.app = s.process()
	return s
}

func (s *scene) exec(statement string, args ...any) {
	s.Helper()
	_, err := s.admin.ExecContext(s.Context(), s.admin.Rebind(statement), args...)
	require.NoError(s, err, statement)
}

// process opens what one more worker process has.
func (s *scene) process() *process {
	s.Helper()
	p, err := s.place.open(s.Context())
	require.NoError(s, err)
	s.Cleanup(p.close)
	return p
}

// run starts a Dispatcher of its own process.
func (s *scene) run(o unique.Options[mail], send sendonce.SenderFunc[mail]) (stop func()) {
	s.Helper()
	if s.rec == nil {
		s.rec = sendertest.New[mail](send)
	}
	p := s.process()
	u, err := p.unique(o, s.rec)
	require.NoError(s, err)
	cfg := config("worker")
	if o.Lease > time.Second { // nobody is to vanish
		cfg.SendTimeout, cfg.Lease = o.Lease, 3*o.Lease
	}
	d, err := sendonce.New[mail](p.claims, u, cfg)
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		assert.NoError(s, <-done)
	})
}

// enqueue is what the application does for each row.
func (s *scene) enqueue(id int64, recipient string) error {
	s.Helper()
	u, err := s.app.unique(unique.Options[mail]{}, sendonce.SenderFunc[mail](nil))
	require.NoError(s, err)
	if err := u.Reserve(s.Context(), recipient, id); err != nil {
		return err
	}
	s.exec("INSERT INTO notify (id, recipient) VALUES (?, ?)", id, recipient)
	return nil
}

// inTheWay checks that a row is refused, and which is in the way.
func (s *scene) inTheWay(id int64, recipient string, row int64) *unique.TakenError {
	s.Helper()
	err := s.enqueue(id, recipient)
	var taken *unique.TakenError
	require.ErrorAs(s, err, &taken)
	require.Equal(s, sendonce.Key(row), taken.Row, err)
	require.WithinDuration(s, time.Now(), taken.Since, time.Minute)
	require.Greater(s, taken.Until, time.Now())
	return taken
}

// accepted enqueues a row as soon as it is not refused, and checks that this takes no
// longer than it may.
func (s *scene) accepted(id int64, recipient string, row int64) {
	s.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := s.enqueue(id, recipient)
		if err == nil {
			return
		}
		var taken *unique.TakenError
		require.ErrorAs(s, err, &taken)
		require.Equal(s, sendonce.Key(row), taken.Row)
		require.Less(s, time.Now(), end, err)
	}
}

func (s *scene) status(id int64) (status, reason string) {
	s.Helper()
	var row struct {
		Status string  `db:"status"`
		Error  *string `db:"last_error"`
	}
	require.NoError(s, s.admin.Get(&row, s.admin.Rebind("SELECT status, last_error FROM notify WHERE id = ?"), id))
	if row.Error != nil {
		reason = *row.Error
	}
	return row.Status, reason
}

func (s *scene) becomes(id int64, want string) {
	s.Helper()
	require.Eventually(s, func() bool {
		status, _ := s.status(id)
		return status == want
	}, 30*time.Second, 10*time.Millisecond, "row %d is to be %s", id, want)
}

func TestFault18_KeyIsFreeWhenItsRowIsDead(t *testing.T) {
	onEach(t, func(s *scene) {
		stop := s.run(unique.Options[mail]{}, func(_ context.Context, m item) error {
			if m.Key == int64(1) {
				return sendonce.Permanent(errors.New("no such receiver"))
			}
			return nil
		})
		defer stop()
		require.NoError(s, s.enqueue(1, "ann"))
		s.becomes(1, "dead")
		s.accepted(2, "ann", 1)
		s.becomes(2, "done")
		assert.Equal(s, unique.Marked, s.inTheWay(3, "ann", 2).How)
	})
}

func TestFault18_KeyIsFreeWhenItsRowIsDeleted(t *testing.T) {
	onEach(t, func(s *scene) {
		require.NoError(s, s.enqueue(1, "ann"))
		assert.Equal(s, unique.Reserved, s.inTheWay(2, "ann", 1).How)
		time.Sleep(grace)
		s.inTheWay(2, "ann", 1)
		s.exec("DELETE FROM notify WHERE id = 1")
		require.NoError(s, s.enqueue(2, "ann"), "at once")
		s.inTheWay(3, "ann", 2)
		stop := s.run(unique.Options[mail]{}, func(context.Context, item) error { return nil })
		defer stop()
		s.becomes(2, "done")
	})
}

// spawn starts a worker process that hangs in its first send.
func (s *scene) spawn(record string) *exec.Cmd {
	s.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVar+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(s, err)
	out, err := cmd.StdoutPipe()
	require.NoError(s, err)
	require.NoError(s, cmd.Start())
	s.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.NoError(s, json.NewEncoder(in).Encode(order{Place: s.place, Record: record}))
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(s, err)
	require.Equal(s, "sending\n", line)
	return cmd
}

func TestFault18_KeyIsFreeWhenItsWorkerIsKilledAndItsRowDead(t *testing.T) {
	onEach(t, func(s *scene) {
		require.NoError(s, s.enqueue(1, "ann"))
		child := s.spawn(filepath.Join(s.TempDir(), "sends"))
		assert.Equal(s, unique.Held, s.inTheWay(2, "ann", 1).How)
		require.NoError(s, child.Process.Kill())
		s.inTheWay(2, "ann", 1)

		stop := s.run(unique.Options[mail]{}, func(_ context.Context, m item) error {
			if m.Key == int64(1) {
				return sendonce.Permanent(errors.New("no such receiver"))
			}
			return nil
		})
		defer stop()
		s.becomes(1, "dead") // by the lease of its claim, and not by the key's
		s.accepted(2, "ann", 1)
		s.becomes(2, "done")
		assert.Equal(s, 1, len(s.rec.Log.Sends(1)))
		assert.Equal(s, 1, len(s.rec.Log.Sends(2)))
	})
}

// Without a reservation the key of a killed worker is free when its own lease is
// over, and the row that was sent by it is not.
func TestFault18_LeaseOfAKilledWorkerEnds(t *testing.T) {
	onEach(t, func(s *scene) {
		s.exec("INSERT INTO notify (id, recipient) VALUES (1, 'ann')")
		child := s.spawn(filepath.Join(s.TempDir(), "sends"))
		require.NoError(s, child.Process.Kill())
		s.exec("INSERT INTO notify (id, recipient) VALUES (2, 'ann')")
		stop := s.run(unique.Options[mail]{Conflict: unique.SkipSent}, func(context.Context, item) error { return nil })
		defer stop()
		s.becomes(2, "done")
		s.becomes(1, "skipped")
		_, reason := s.status(1)
		assert.Contains(s, reason, `unique key "ann" is taken by row 2, sent`)
	})
}

func TestFault18_DeadRowThatIsPutBackIsNeverBesideTheNewOne(t *testing.T) {
	for _, conflict := range []unique.Conflict{unique.Skip, unique.Wait} {
		t.Run(fmt.Sprint("conflict=", conflict), func(t *testing.T) {
			onEach(t, func(s *scene) { putBack(s, conflict) })
		})
	}
}

func putBack(s *scene, conflict unique.Conflict) {
	var mu sync.Mutex
	first, inFlight, most := true, 0, 0
	sending, goOn := make(chan struct{}), make(chan struct{})
	send := func(ctx context.Context, m item) error {
		mu.Lock()
		fails := first
		first = false
		inFlight++
		most = max(most, inFlight)
		mu.Unlock()
		defer func() {
			mu.Lock()
			inFlight--
			mu.Unlock()
		}()
		if fails {
			return sendonce.Permanent(errors.New("no such receiver"))
		}
		if m.Key == int64(2) {
			close(sending)
			<-goOn
		}
		return nil
	}
	o := unique.Options[mail]{Conflict: conflict, Scope: unique.UntilDone}
	var stops []func()
	for range 2 {
		stop := s.run(o, send)
		defer stop()
		stops = append(stops, stop)
	}
	require.NoError(s, s.enqueue(1, "ann"))
	s.becomes(1, "dead")
	s.accepted(2, "ann", 1)
	<-sending
	s.exec("UPDATE notify SET status = 'pending', token = 0, attempts = 0, next_attempt = NULL WHERE id = 1")
	if conflict == unique.Skip {
		s.becomes(1, "skipped")
		_, reason := s.status(1)
		assert.Contains(s, reason, `unique key "ann" is taken by row 2, being sent`)
	} else {
		require.Eventually(s, func() bool {
			_, reason := s.status(1)
			return reason != "" && reason != "no such receiver"
		}, 20*time.Second, 10*time.Millisecond)
		_, reason := s.status(1)
		assert.Contains(s, reason, `unique key "ann" is taken by row 2, being sent`)
	}
	close(goOn)
	s.becomes(2, "done")
	if conflict == unique.Wait {
		s.becomes(1, "done")
	}
	for _, stop := range stops {
		stop()
	}
	assert.Equal(s, 1, most, "sends of one key at once")
}
