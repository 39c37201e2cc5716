package servers

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "github.com/lib/pq"              // driver "postgres"
)

var postgresKind = &kind{
	name:     "postgres",
	title:    "PostgreSQL",
	dsnVar:   "SENDONCE_TEST_POSTGRES_DSN",
	imageVar: "SENDONCE_TEST_POSTGRES_IMAGE",
	image:    "postgres:17",
	port:     "5432",
	env:      []string{"POSTGRES_HOST_AUTH_METHOD=trust", "SENDONCE_TEST_SERVER=postgres"},
	flags:    []string{"-c", "max_connections=300", "-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB"},
	localFlags: func(dir, port string) []string {
		return []string{
			"-D", filepath.Join(dir, "data"), "-p", port,
			"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		}
	},
	program: func() (string, error) { return findProgram("postgres", "/usr/lib/postgresql/*/bin") },
	prepare: preparePostgres,
	users:   []string{"postgres"},
	stop:    syscall.SIGINT, // "fast": does not wait for clients to leave
	dsn: func(addr string) string {
		return "postgres://postgres@" + addr + "/postgres?sslmode=disable"
	},
	probe: probePostgres,
}

func preparePostgres(l *local) error {
	program, err := filepath.EvalSymlinks(l.program) // initdb looks for its files beside itself
	if err != nil {
		return err
	}
	return l.runOnce(filepath.Join(filepath.Dir(program), "initdb"), "-D", filepath.Join(l.dir, "data"),
		"-U", "postgres", "--auth=trust", "--no-sync", "--no-instructions", "-E", "UTF8", "--locale=C.UTF-8")
}

func probePostgres(ctx context.Context, dsn string) (addr, version string, err error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		return "", "", fmt.Errorf("the DSN of PostgreSQL must be a URL, postgres://user:password@host:port/database: %w", err)
	}
	if addr = u.Host; u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "5432")
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return "", "", err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, "SHOW server_version").Scan(&version)
	return addr, "PostgreSQL " + firstWord(version), err
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

// postgresDSN puts another host, database or parameters into a DSN.
func postgresDSN(dsn, addr, database string, params []string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		panic(err) // it was parsed before
	}
	u.Host, u.Path = addr, "/"+database
	q := u.Query()
	for _, p := range params {
		name, value, _ := strings.Cut(p, "=")
		q.Set(name, value)
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // a plus is a plus to drivers
	return u.String()
}
