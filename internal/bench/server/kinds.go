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

// Postgres starts a PostgreSQL below dir.
func Postgres(ctx context.Context, dir string) (*Server, error) {
	program, err := find("postgres", "/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	const account = "postgres"
	s := &Server{Kind: "postgres"}
	if s.Dir, err = folder(dir, s.Kind, account); err != nil {
		return nil, err
	}
	data := filepath.Join(s.Dir, "data")
	if program, err = filepath.EvalSymlinks(program); err == nil { // initdb looks for its files beside itself
		err = runOnce(ctx, s.Dir, account, filepath.Join(filepath.Dir(program), "initdb"), "-D", data, "-U", "postgres",
			"--auth=trust", "--no-instructions", "-E", "UTF8", "--locale=C.UTF-8")
	}
	var port string
	if err == nil {
		port, err = freePort()
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	s.Addr = "127.0.0.1:" + port
	args := []string{"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
	for _, setting := range PostgresSettings {
		args = append(args, "-c", setting)
	}
	probe := func(ctx context.Context) (string, error) {
		return ask(ctx, "pgx", s.DSN("postgres"), "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)")
	}
	if err := start(ctx, s, account, probe, program, args...); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// MariaDB starts a MariaDB below dir.
func MariaDB(ctx context.Context, dir string) (*Server, error) {
	program, err := find("mariadbd", "/usr/sbin", "/usr/local/sbin")
	if err != nil {
		return nil, err
	}
	const account = "mysql"
	s := &Server{Kind: "mariadb"}
	if s.Dir, err = folder(dir, s.Kind, account); err != nil {
		return nil, err
	}
	data := filepath.Join(s.Dir, "data")
	install, err := find("mariadb-install-db", "/usr/bin", "/usr/local/bin")
	if err == nil {
		err = runOnce(ctx, s.Dir, account, install, "--no-defaults", "--datadir="+data,
			"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--tmpdir="+s.Dir)
	}
	var port string
	if err == nil {
		port, err = freePort()
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	s.Addr = "127.0.0.1:" + port
	args := []string{
		"--no-defaults", "--datadir=" + data, "--port=" + port, "--bind-address=127.0.0.1", "--skip-name-resolve",
		"--socket=" + filepath.Join(s.Dir, "socket"), "--pid-file=" + filepath.Join(s.Dir, "pid"), "--tmpdir=" + s.Dir,
	}
	for _, setting := range MariaSettings {
		args = append(args, "--"+setting)
	}
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // a server that is starting refuses, which is no news
	probe := func(ctx context.Context) (string, error) {
		v, err := ask(ctx, "mysql", s.DSN(""), "SELECT VERSION()")
		number, _, _ := strings.Cut(v, "-")
		return "MariaDB " + number, err
	}
	if err := start(ctx, s, account, probe, program, args...); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Redis starts a Redis below dir.
func Redis(ctx context.Context, dir string) (*Server, error) {
	program, err := find("redis-server", "/usr/sbin", "/usr/local/sbin")
	if err != nil {
		return nil, err
	}
	const account = "redis"
	s := &Server{Kind: "redis"}
	if s.Dir, err = folder(dir, s.Kind, account); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		s.Stop()
		return nil, err
	}
	s.Addr = "127.0.0.1:" + port
	args := []string{
		"--port", port, "--bind", "127.0.0.1", "--dir", s.Dir, "--protected-mode", "no",
		"--save", "", "--appendonly", "yes", "--appendfsync", "everysec",
	}
	probe := func(ctx context.Context) (string, error) {
		c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
		defer c.Close()
		info, err := c.Info(ctx, "server").Result()
		_, rest, _ := strings.Cut(info, "redis_version:")
		number, _, _ := strings.Cut(rest, "\r")
		return "Redis " + number, err
	}
	if err := start(ctx, s, account, probe, program, args...); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
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
