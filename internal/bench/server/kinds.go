package server

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"path/filepath"
	"strings"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	"github.com/redis/go-redis/v9"
)

// PostgresSettings are those of the benchmarks; all others are the defaults.
var PostgresSettings = []string{
	"fsync=on", "synchronous_commit=on", "shared_buffers=1GB", "max_wal_size=8GB", "max_connections=200",
	"shared_preload_libraries=pg_stat_statements",
}

// MariaSettings are those of the benchmarks; all others are the defaults.
var MariaSettings = []string{
	"innodb-flush-log-at-trx-commit=1", "innodb-buffer-pool-size=1G", "innodb-log-file-size=2G", "max-connections=200",
	"character-set-server=utf8mb4",
}

// RedisSettings are those of the benchmarks.
var RedisSettings = []string{"appendonly yes", "appendfsync everysec", "save \"\""}

// recipe is how a server that is prepared is started, and asked for its version.
type recipe struct {
	program string
	args    []string
	probe   func(ctx context.Context) (string, error)
}

// launch starts a server in a folder of its own below dir, as the account if this
// process is root. prepare fills the folder and chooses the address.
func launch(ctx context.Context, dir, kind, account string, prepare func(s *Server) (recipe, error)) (*Server, error) {
	s := &Server{Kind: kind}
	var r recipe
	var err error
	if s.Dir, err = folder(dir, kind, account); err == nil {
		r, err = prepare(s)
	}
	if err == nil {
		err = start(ctx, s, account, r.probe, r.program, r.args...)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Postgres starts a PostgreSQL below dir.
func Postgres(ctx context.Context, dir string) (*Server, error) {
	const account = "postgres"
	return launch(ctx, dir, "postgres", account, func(s *Server) (r recipe, err error) {
		if r.program, err = find("postgres", "/usr/lib/postgresql/*/bin"); err != nil {
			return r, err
		}
		if r.program, err = filepath.EvalSymlinks(r.program); err != nil { // initdb looks for its files beside itself
			return r, err
		}
		data := filepath.Join(s.Dir, "data")
		if err := runOnce(ctx, s.Dir, account, filepath.Join(filepath.Dir(r.program), "initdb"), "-D", data, "-U", "postgres",
			"--auth=trust", "--no-instructions", "-E", "UTF8", "--locale=C.UTF-8"); err != nil {
			return r, err
		}
		port, err := s.takePort()
		r.args = []string{"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
		for _, setting := range PostgresSettings {
			r.args = append(r.args, "-c", setting)
		}
		r.probe = func(ctx context.Context) (string, error) {
			return ask(ctx, "pgx", s.DSN("postgres"), "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)")
		}
		return r, err
	})
}

// MariaDB starts a MariaDB below dir.
func MariaDB(ctx context.Context, dir string) (*Server, error) {
	const account = "mysql"
	return launch(ctx, dir, "mariadb", account, func(s *Server) (r recipe, err error) {
		if r.program, err = find("mariadbd", "/usr/sbin", "/usr/local/sbin"); err != nil {
			return r, err
		}
		install, err := find("mariadb-install-db", "/usr/bin", "/usr/local/bin")
		if err != nil {
			return r, err
		}
		data := filepath.Join(s.Dir, "data")
		if err := runOnce(ctx, s.Dir, account, install, "--no-defaults", "--datadir="+data,
			"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--tmpdir="+s.Dir); err != nil {
			return r, err
		}
		port, err := s.takePort()
		r.args = []string{
			"--no-defaults", "--datadir=" + data, "--port=" + port, "--bind-address=127.0.0.1", "--skip-name-resolve",
			"--socket=" + filepath.Join(s.Dir, "socket"), "--pid-file=" + filepath.Join(s.Dir, "pid"), "--tmpdir=" + s.Dir,
		}
		for _, setting := range MariaSettings {
			r.args = append(r.args, "--"+setting)
		}
		_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // a server that is starting refuses, which is no news
		r.probe = func(ctx context.Context) (string, error) {
			v, err := ask(ctx, "mysql", s.DSN(""), "SELECT VERSION()")
			number, _, _ := strings.Cut(v, "-")
			return "MariaDB " + number, err
		}
		return r, err
	})
}

// Redis starts a Redis below dir.
func Redis(ctx context.Context, dir string) (*Server, error) {
	return launch(ctx, dir, "redis", "redis", func(s *Server) (r recipe, err error) {
		if r.program, err = find("redis-server", "/usr/sbin", "/usr/local/sbin"); err != nil {
			return r, err
		}
		port, err := s.takePort()
		r.args = []string{"--port", port, "--bind", "127.0.0.1", "--dir", s.Dir, "--protected-mode", "no"}
		for _, setting := range RedisSettings {
			name, value, _ := strings.Cut(setting, " ")
			r.args = append(r.args, "--"+name, strings.Trim(value, `"`))
		}
		r.probe = func(ctx context.Context) (string, error) {
			c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
			defer c.Close()
			info, err := c.Info(ctx, "server").Result()
			_, rest, _ := strings.Cut(info, "redis_version:")
			number, _, _ := strings.Cut(rest, "\r")
			return "Redis " + number, err
		}
		return r, err
	})
}

// DSN is the connection string for a database of the server.
func (s *Server) DSN(database string) string {
	switch s.Kind {
	case "postgres":
		return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Addr, database)
	case "mariadb":
		return fmt.Sprintf("root@tcp(%s)/%s?parseTime=true&multiStatements=true&interpolateParams=true&tx_isolation='READ-COMMITTED'", s.Addr, database)
	}
	return s.Addr
}

func ask(ctx context.Context, driver, dsn, query string) (answer string, err error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, query).Scan(&answer)
	return answer, err
}
