package servers

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisDatabases is how many databases a Redis of ours has, one per test.
const redisDatabases = 10000

var redisKind = &kind{
	name:     "redis",
	title:    "Redis",
	dsnVar:   "SENDONCE_TEST_REDIS_URL",
	imageVar: "SENDONCE_TEST_REDIS_IMAGE",
	image:    "redis:7",
	port:     "6379",
	env:      []string{"SENDONCE_TEST_SERVER=redis"},
	flags:    []string{"--databases", fmt.Sprint(redisDatabases), "--save", "", "--appendonly", "no", "--protected-mode", "no"},
	localFlags: func(dir, port string) []string {
		return []string{"--port", port, "--bind", "127.0.0.1", "--dir", dir}
	},
	program: func() (string, error) { return findProgram("redis-server", "/usr/sbin", "/usr/local/sbin") },
	users:   []string{"redis"},
	stop:    syscall.SIGTERM,
	dsn:     func(addr string) string { return "redis://" + addr + "/0" },
	probe:   probeRedis,
}

func probeRedis(ctx context.Context, dsn string) (addr, version string, err error) {
	o, err := redis.ParseURL(dsn)
	if err != nil {
		return "", "", err
	}
	o.MaxRetries = -1
	c := redis.NewClient(o)
	defer c.Close()
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			version = strings.TrimSpace(v)
		}
	}
	return o.Addr, "Redis " + version, nil
}

// RedisDB is a test's own part of a Redis server.
type RedisDB struct {
	Addr    string // host:port
	Version string // such as "Redis 7.0.15"
	Via     string // how the server was had

	// DB is the number of a database of the test's own, empty at the start. On a
	// server that SENDONCE_TEST_REDIS_URL names it is the URL's, shared with
	// whoever uses it.
	DB int

	// Prefix must begin the names of the test's keys where DB may be shared. It
	// is new for each test, and what bears it is deleted after the test.
	Prefix string

	options redis.Options
}

// Redis returns a part of the shared Redis for this test alone.
func Redis(t testing.TB) *RedisDB {
	t.Helper()
	return newRedisDB(t, sharedServer(t, redisKind))
}

var redisDBs, names atomic.Int64

func newRedisDB(t testing.TB, s *server) *RedisDB {
	t.Helper()
	o, err := redis.ParseURL(s.dsn)
	if err != nil {
		t.Fatal("servers:", err)
	}
	r := &RedisDB{Version: s.version, Via: s.via, Prefix: freshName() + ":"}
	if s.run != nil {
		o.DB = int(redisDBs.Add(1)) % redisDatabases
	}
	r.Addr, r.DB, r.options = o.Addr, o.DB, *o
	c := redis.NewClient(o)
	clean := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if s.run != nil {
			return c.FlushDB(ctx).Err()
		}
		return deletePrefix(ctx, c, r.Prefix)
	}
	if err := clean(); err != nil {
		t.Fatal("servers: empty the Redis database:", err)
	}
	t.Cleanup(func() {
		_ = clean() // the test may have stopped or broken its server
		_ = c.Close()
	})
	return r
}

func deletePrefix(ctx context.Context, c *redis.Client, prefix string) error {
	keys := c.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := c.Del(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

// Options returns new client options for the test's database.
func (r *RedisDB) Options() *redis.Options {
	o := r.options
	o.Addr, o.DB = r.Addr, r.DB
	return &o
}

// Client returns a client that is closed after the test.
func (r *RedisDB) Client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(r.Options())
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// At returns the same database, reached through another address: a proxy's.
func (r *RedisDB) At(addr string) *RedisDB {
	other := *r
	other.Addr = addr
	return &other
}
