package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce/internal/bench/server"
	"github.com/sendonce/sendonce/internal/bench/table"
)

// Host has the servers and programs of a run. Close it.
type Host struct {
	Dir  string    // where servers keep their data
	Self []string  // the command that runs contender.Run with a job as its last argument
	Out  io.Writer // gets a line per run
	Tell bool      // the statements that PostgreSQL spent its time on, after each run

	Profiles string // folder for CPU profiles of our contenders, or ""

	servers map[string]*server.Server
	rivals  map[string]string
	names   atomic.Int64
}

// Say writes a line.
func (h *Host) Say(format string, args ...any) { fmt.Fprintf(h.Out, format+"\n", args...) }

// Close ends the servers and deletes what they and the programs have left.
func (h *Host) Close() {
	for _, s := range h.servers {
		s.Stop()
	}
	for _, path := range h.rivals {
		_ = os.RemoveAll(filepath.Dir(path))
	}
}

// server starts a server at its first use.
func (h *Host) server(ctx context.Context, kind string) (*server.Server, error) {
	if s := h.servers[kind]; s != nil {
		return s, nil
	}
	start := map[string]func(context.Context, string) (*server.Server, error){
		"postgres": server.Postgres, "mariadb": server.MariaDB, "redis": server.Redis,
	}[kind]
	s, err := start(ctx, h.Dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	if h.servers == nil {
		h.servers = map[string]*server.Server{}
	}
	h.servers[kind] = s
	return s, nil
}

// Versions names the servers that were used.
func (h *Host) Versions() []string {
	vs := []string{runtime.Version()}
	for _, s := range h.servers {
		vs = append(vs, s.Version)
	}
	return vs
}

// newDatabase makes a database of a run's own.
func (h *Host) newDatabase(ctx context.Context, s *server.Server) (dsn string, drop func() error, err error) {
	name, admin := fmt.Sprint("bench", h.names.Add(1)), ""
	create, remove := "CREATE DATABASE "+name, "DROP DATABASE "+name
	if s.Kind == "postgres" {
		admin, remove = "postgres", remove+" WITH (FORCE)"
		create += " TEMPLATE template0"
	}
	dsn = s.DSN(name)
	if err := exec1(ctx, s.DSN(admin), create); err != nil {
		return "", nil, err
	}
	return dsn, func() error { return exec1(context.WithoutCancel(ctx), s.DSN(admin), remove) }, nil
}

func exec1(ctx context.Context, dsn string, statements ...string) error {
	db, err := sql.Open(table.Driver(dsn), dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func flushRedis(ctx context.Context, addr string) error {
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	return c.FlushAll(ctx).Err()
}

// command is what runs a contender; a rival is built first.
func (h *Host) command(ctx context.Context, s Spec) ([]string, error) {
	if s.Rival == "" {
		return h.Self, nil
	}
	if path, ok := h.rivals[s.Rival]; ok {
		return []string{path}, nil
	}
	dir, err := moduleDir(ctx)
	if err != nil {
		return nil, err
	}
	to, err := os.MkdirTemp(h.Dir, "sendonce-bench-rival-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(to, s.Rival)
	build := exec.CommandContext(ctx, "go", "build", "-o", path, ".")
	build.Dir = filepath.Join(dir, "rivals", s.Rival)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", s.Rival, err, out)
	}
	if h.rivals == nil {
		h.rivals = map[string]string{}
	}
	h.rivals[s.Rival] = path
	return []string{path}, nil
}

// moduleDir is the folder of this module's source, where the rivals are.
func moduleDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/sendonce/sendonce/internal/bench").Output()
	if err != nil {
		return "", fmt.Errorf("rivals are built from source, so run this in the folder of its module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// meters read what servers have done.
type meters struct{ servers []*server.Server }

type reading struct {
	cpu        time.Duration
	log        float64
	statements float64
	exec       float64 // milliseconds of PostgreSQL's statements
}

func (m *meters) add(s *server.Server) { m.servers = append(m.servers, s) }

// tell prints what PostgreSQL spent its time on since it was last asked.
func (m *meters) tell(ctx context.Context, h *Host) error {
	for _, s := range m.servers {
		if s.Kind != "postgres" || !h.Tell {
			continue
		}
		db, err := sql.Open("pgx", s.DSN("postgres"))
		if err != nil {
			return err
		}
		defer db.Close()
		rows, err := db.QueryContext(ctx, `SELECT calls, total_exec_time, rows, left(regexp_replace(query, '\s+', ' ', 'g'), 200)
			FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 10`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var calls, n int64
			var took float64
			var query string
			if err := rows.Scan(&calls, &took, &n, &query); err != nil {
				return err
			}
			h.Say("    %6d calls %9.1f ms %8d rows  %s", calls, took, n, query)
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	return nil
}

// settle brings PostgreSQL to rest before a run. Rows that a contender inserted
// itself are then as much at rest as ours.
func (m *meters) settle(ctx context.Context) error {
	for _, s := range m.servers {
		if s.Kind == "postgres" {
			err := exec1(ctx, s.DSN("postgres"), "CHECKPOINT", "CREATE EXTENSION IF NOT EXISTS pg_stat_statements", "SELECT pg_stat_statements_reset()")
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *meters) read(ctx context.Context) (reading, error) {
	var sum reading
	for _, s := range m.servers {
		r, err := read(ctx, s)
		if err != nil {
			return sum, fmt.Errorf("read the meters of %s: %w", s.Kind, err)
		}
		sum.cpu, sum.log, sum.statements = sum.cpu+r.cpu, sum.log+r.log, sum.statements+r.statements
		sum.exec += r.exec
	}
	return sum, nil
}

func read(ctx context.Context, s *server.Server) (r reading, err error) {
	if r.cpu, err = s.CPU(); err != nil {
		return r, err
	}
	if s.Kind == "redis" {
		r.statements, err = redisCommands(ctx, s.Addr)
		return r, err
	}
	database := map[string]string{"postgres": "postgres", "mariadb": "mysql"}[s.Kind]
	db, err := sql.Open(table.Driver(s.DSN(database)), s.DSN(database))
	if err != nil {
		return r, err
	}
	defer db.Close()
	if s.Kind == "mariadb" {
		var name string
		err1 := db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'").Scan(&name, &r.log)
		err2 := db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &r.statements)
		return r, errors.Join(err1, err2)
	}
	err = db.QueryRowContext(ctx, "SELECT pg_current_wal_lsn() - '0/0', COALESCE(sum(calls), 0), COALESCE(sum(total_exec_time), 0) FROM pg_stat_statements").Scan(&r.log, &r.statements, &r.exec)
	return r, err
}

func redisCommands(ctx context.Context, addr string) (n float64, err error) {
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	info, err := c.Info(ctx, "stats").Result()
	if err == nil {
		_, rest, _ := strings.Cut(info, "total_commands_processed:")
		_, err = fmt.Sscan(rest, &n)
	}
	return n, err
}
