package redisclaim

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Warnings says what is wrong with the settings of the Redis that has the queue:
// that it evicts keys when its memory is full, or keeps nothing over a restart. If
// the settings may not be read, as with many hosted servers, a warning says so: that
// is no error. New logs them.
func (q *Queue[T]) Warnings(ctx context.Context) ([]string, error) {
	node := redis.Cmdable(q.client)
	if cluster, ok := q.client.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, q.keys[0])
		if err != nil {
			return nil, fmt.Errorf("sendonce: find the node of queue %s: %w", q.base, err)
		}
		node = master
	}
	settings, err := info(ctx, node)
	var refused redis.Error
	if errors.As(err, &refused) {
		return []string{fmt.Sprintf("the settings of Redis may not be read (%v): make sure that maxmemory-policy is noeviction and appendonly is yes", refused)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sendonce: read the settings of Redis: %w", err)
	}
	var out []string
	if policy := settings["maxmemory_policy"]; policy != "noeviction" && settings["maxmemory"] != "0" {
		out = append(out, fmt.Sprintf("Redis evicts keys when its memory is full (maxmemory %s, maxmemory-policy %s), and whole queues with them: set maxmemory-policy noeviction",
			settings["maxmemory"], policy))
	}
	if settings["aof_enabled"] != "1" {
		out = append(out, "Redis writes no append-only file: when it restarts, items that were added since its last snapshot are lost, and items that were done since are sent again; set appendonly yes")
	}
	return out, nil
}

// info reads the server's account of itself, which more users may read than its
// configuration.
func info(ctx context.Context, node redis.Cmdable) (map[string]string, error) {
	out := map[string]string{}
	for _, section := range []string{"memory", "persistence"} {
		text, err := node.Info(ctx, section).Result()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				out[name] = value
			}
		}
	}
	return out, nil
}
