package servers

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// bouncerKind names PgBouncer; what runs is a copy of it that knows its database.
var bouncerKind = &kind{
	name:    "pgbouncer",
	title:   "PgBouncer",
	program: func() (string, error) { return findProgram("pgbouncer", "/usr/sbin", "/usr/local/sbin") },
	localFlags: func(dir, _ string) []string {
		return []string{filepath.Join(dir, "pgbouncer.ini")}
	},
	users: []string{"postgres"},
	stop:  syscall.SIGINT,
}

// PgBouncer starts a pooler for this test alone, in front of a database of
// Postgres or StartPostgres, and returns the database as reached through it. It
// pools transactions over two server connections; settings ("name = value", as
// in the [pgbouncer] section) change that. It is always a local program.
func PgBouncer(t testing.TB, d *Database, settings ...string) *SQLServer {
	t.Helper()
	k := *bouncerKind
	k.prepare = func(l *local) error { return writeBouncer(l, d, settings) }
	k.dsn = func(addr string) string { return postgresDSN(d.DSN, addr, d.Name, nil) }
	k.probe = func(ctx context.Context, dsn string) (string, string, error) { return probeBouncer(ctx, &k, dsn) }
	s := ownServer(t, &k, []Options{{Local: true}})
	return &SQLServer{d.At(s.addr), Control{s}}
}

func writeBouncer(l *local, d *Database, settings []string) error {
	u, err := url.Parse(d.DSN)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(d.Addr)
	if err != nil {
		return err
	}
	target := fmt.Sprintf("* = host=%s port=%s user=%s", host, port, u.User.Username())
	if password, ok := u.User.Password(); ok {
		target += " password='" + strings.ReplaceAll(password, "'", "''") + "'"
	}
	text := strings.Join(append([]string{
		"[databases]", target,
		"[pgbouncer]",
		"listen_addr = 127.0.0.1", "listen_port = " + l.port, "unix_socket_dir =", "auth_type = any",
		"pool_mode = transaction", "default_pool_size = 2", "max_client_conn = 500",
		"ignore_startup_parameters = extra_float_digits",
	}, settings...), "\n") + "\n"
	path := filepath.Join(l.dir, "pgbouncer.ini")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	if l.as != nil {
		return os.Chown(path, int(l.as.uid), int(l.as.gid))
	}
	return nil
}

func probeBouncer(ctx context.Context, k *kind, dsn string) (addr, version string, err error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", "", err
	}
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return "", "", err
	}
	defer db.Close()
	if err := db.PingContext(ctx); err != nil {
		return "", "", err
	}
	program, err := k.program()
	if err != nil {
		return "", "", err
	}
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return u.Host, line, err
}
