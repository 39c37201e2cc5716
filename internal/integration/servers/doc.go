// Package servers gives tests real database servers: PostgreSQL, MariaDB (or
// MySQL) and Redis.
//
// A server is had in the first of three ways that works:
//
//   - dsn: SENDONCE_TEST_POSTGRES_DSN, SENDONCE_TEST_MYSQL_DSN and
//     SENDONCE_TEST_REDIS_URL name running servers. The user in a DSN must be
//     allowed to create and drop databases.
//   - docker: a container per server, if a Docker daemon answers. The images are
//     the official ones, unless SENDONCE_TEST_POSTGRES_IMAGE,
//     SENDONCE_TEST_MYSQL_IMAGE or SENDONCE_TEST_REDIS_IMAGE name others.
//   - local: the machine's own server programs, started privately on a free port
//     of the loopback interface, with their data in a temporary folder.
//
// SENDONCE_TEST_VIA=dsn, docker or local allows that way only. A server that
// cannot be had skips the test, unless SENDONCE_TEST_REQUIRE (a list such as
// "postgres,mariadb,redis") names it: then the test fails. Under -short no server
// is started and the tests that need one are skipped.
//
// Each test binary has at most one shared server of a kind, started by the first
// test that asks for it, and each test has a database of its own on it. The
// package's TestMain must be
//
//	func TestMain(m *testing.M) { servers.Main(m) }
//
// which stops everything at the end. If the test binary dies before that, the
// kernel kills its servers (on Linux), the Docker daemon its containers after a
// while, and the next run removes what is left.
//
// Tests that stop, kill or pause a server start one of their own with
// StartPostgres, StartMariaDB or StartRedis.
package servers
