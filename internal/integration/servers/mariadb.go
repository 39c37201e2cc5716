package servers

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"
)

var mariaKind = &kind{
	name:     "mariadb",
	title:    "MariaDB/MySQL",
	dsnVar:   "SENDONCE_TEST_MYSQL_DSN",
	imageVar: "SENDONCE_TEST_MYSQL_IMAGE",
	image:    "mariadb:11.4",
	port:     "3306",
	env: []string{
		"MARIADB_ALLOW_EMPTY_ROOT_PASSWORD=1", "MYSQL_ALLOW_EMPTY_PASSWORD=1", "MYSQL_ROOT_HOST=%",
		"SENDONCE_TEST_SERVER=mariadb",
	},
	flags: []string{"--max-connections=500", "--skip-name-resolve", "--character-set-server=utf8mb4"},
	localFlags: func(dir, port string) []string {
		return []string{
			"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--port=" + port, "--bind-address=127.0.0.1",
			"--socket=" + filepath.Join(dir, "socket"), "--pid-file=" + filepath.Join(dir, "pid"), "--tmpdir=" + dir,
		}
	},
	program: func() (string, error) { return findProgram("mariadbd", "/usr/sbin", "/usr/local/sbin") },
	prepare: func(l *local) error {
		// A server that starts deletes the temporary tables in its tmpdir: others' too.
		return l.runOnce("mariadb-install-db", "--no-defaults", "--datadir="+filepath.Join(l.dir, "data"),
			"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
			"--tmpdir="+l.dir)
	},
	users: []string{"mysql"},
	stop:  syscall.SIGTERM,
	dsn:   func(addr string) string { return "root@tcp(" + addr + ")/" },
	probe: probeMaria,
}

func probeMaria(ctx context.Context, dsn string) (addr, version string, err error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", "", err
	}
	cfg.Logger = &mysql.NopLogger{} // a server that is starting refuses, which is no news
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return "", "", err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	if err = db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return "", "", err
	}
	// "10.11.6-MariaDB-0+deb12u1"; MySQL says only "8.4.3".
	number, rest, _ := strings.Cut(version, "-")
	if strings.HasPrefix(rest, "MariaDB") {
		return cfg.Addr, "MariaDB " + number, nil
	}
	return cfg.Addr, "MySQL " + number, nil
}

// mariaDSN puts another host, database or parameters into a DSN.
func mariaDSN(dsn, addr, database string, params []string) string {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		panic(err) // it was parsed before
	}
	cfg.Addr, cfg.DBName = addr, database
	text := cfg.FormatDSN()
	for _, p := range params {
		sep := "?"
		if strings.Contains(text[strings.LastIndexByte(text, '/'):], "?") {
			sep = "&"
		}
		text += sep + p
	}
	return text
}
