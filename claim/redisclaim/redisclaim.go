package redisclaim

import (
	"context"
	"crypto/sha256"
	_ "embed" // the scripts
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/kit"
)

// Options tune New. The zero value works, and so does nil.
type Options struct {
	// Prefix begins the names of all keys in Redis. It must not contain braces,
	// which decide where a cluster keeps a key. Default: "sendonce:queue:".
	Prefix string

	// Encode and Decode write and read values. Default: json.Marshal and
	// json.Unmarshal. All processes of a queue use the same.
	Encode func(v any) ([]byte, error)
	Decode func(data []byte, v any) error

	// KeepDone is how long items that are done are kept, and counted. Default:
	// they are deleted at once.
	KeepDone time.Duration

	// Logger is told by New what is wrong with the settings of Redis (Warnings).
	// Default: slog.Default().
	Logger *slog.Logger
}

// Queue is one process's handle on a queue in Redis. It implements
// sendonce.Claimer, Ender, Beginner, Reaper, Counter, DoubtKeeper and Examiner. All
// its methods may be called from several goroutines at once. Make it with New.
//
// Methods return when their context ends, whatever the client's
// ContextTimeoutEnabled says; without that a goroutine may wait for the client's
// ReadTimeout longer.
type Queue[T any] struct {
	client  redis.UniversalClient
	options Options
	base    string
	keys    []string

	eyes      witness
	lost      lostClaims
	turn      atomic.Int64 // which kind of items the next claim looks for first
	backFirst atomic.Bool
	walk      atomic.Uint64 // where Reap's walk over the items goes on
}

var _ interface {
	sendonce.Claimer[any]
	sendonce.Ender
	sendonce.Beginner
	sendonce.Reaper
	sendonce.Counter
	sendonce.DoubtKeeper
	sendonce.Examiner[any]
} = (*Queue[any])(nil)

// keyNames are the ends of the names of a queue's keys in Redis, in the order in
// which the scripts have them. The first is the queue's name itself.
var keyNames = []string{
	"items", "values", "order", "active", "fresh", "back", "suspects", "claims", "leases:1", "leases:2",
	"state", "dead", "skipped", "unknown", "done", "unique", "windows",
}

// New returns a handle on a queue, which need not exist before, on a client that
// stays the caller's to close. Options may be nil. It asks Redis for its settings
// and logs what is wrong with them, and returns an error if there is no answer.
func New[T any](ctx context.Context, rdb redis.UniversalClient, queue string, o *Options) (*Queue[T], error) {
	if rdb == nil {
		return nil, errors.New("sendonce: the Redis client is nil")
	}
	if queue == "" || len(queue) > maxKey {
		return nil, fmt.Errorf("sendonce: the name of a queue has 1 to %d bytes, and %.40q has %d", maxKey, queue, len(queue))
	}
	q := &Queue[T]{client: rdb}
	if o != nil {
		q.options = *o
	}
	q.options.setDefaults()
	if strings.ContainsAny(q.options.Prefix, "{}") {
		return nil, fmt.Errorf("sendonce: redisclaim.Options.Prefix %q has a brace, which would decide where a cluster keeps the keys", q.options.Prefix)
	}
	// One hash tag, that the name can neither close nor open: all are in one slot.
	q.base = q.options.Prefix + "{" + kit.Escape(queue, "{}") + "}"
	for _, name := range keyNames {
		q.keys = append(q.keys, q.base+":"+name)
	}
	warnings, err := q.Warnings(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		q.options.Logger.Warn("sendonce: "+w, "queue", queue)
	}
	return q, nil
}

func (o *Options) setDefaults() {
	if o.Prefix == "" {
		o.Prefix = "sendonce:queue:"
	}
	if o.Encode == nil {
		o.Encode = json.Marshal
	}
	if o.Decode == nil {
		o.Decode = json.Unmarshal
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.KeepDone = max(o.KeepDone, 0)
}

// Keys returns the names of the queue's keys in Redis, for operators; those that
// are empty don't exist. Besides them there are only keys that Add leaves for a
// minute, to know a repeat of itself.
func (q *Queue[T]) Keys() []string { return append([]string(nil), q.keys...) }

//go:embed common.lua
var commonText string

var (
	//go:embed add.lua
	addText string
	//go:embed claim.lua
	claimText string
	//go:embed extend.lua
	extendText string
	//go:embed finish.lua
	finishText string
	//go:embed begin.lua
	beginText string
	//go:embed settle.lua
	settleText string
	//go:embed watch.lua
	watchText string
	//go:embed reap.lua
	reapText string
	//go:embed operate.lua
	operateText string
	//go:embed show.lua
	showText string
)

// Each is sent by its hash, and as a text if the server doesn't know that: after a
// restart, say.
var (
	addScript     = redis.NewScript(commonText + addText)
	claimScript   = redis.NewScript(commonText + claimText)
	extendScript  = redis.NewScript(commonText + extendText)
	finishScript  = redis.NewScript(commonText + finishText)
	beginScript   = redis.NewScript(commonText + beginText)
	settleScript  = redis.NewScript(commonText + settleText)
	watchScript   = redis.NewScript(commonText + watchText)
	reapScript    = redis.NewScript(commonText + reapText)
	operateScript = redis.NewScript(commonText + operateText)
	showScript    = redis.NewScript(commonText + showText)
)

// run runs a script and returns when ctx ends: the client by itself may wait for an
// answer until its ReadTimeout.
func (q *Queue[T]) run(ctx context.Context, what string, s *redis.Script, args []any, keys ...string) ([]any, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	reply, err := kit.Await(ctx, func() (any, error) {
		return s.Run(ctx, q.client, append(q.Keys(), keys...), args...).Result()
	})
	if err != nil {
		return nil, fmt.Errorf("sendonce: %s in queue %s: %w", what, q.base, err)
	}
	list, _ := reply.([]any)
	return list, nil
}

// row is an item's state, as the scripts keep it. Numbers that a double in JSON
// would round are text.
type row struct {
	Status   string `json:"s"`
	Token    string `json:"t"`
	Attempts int    `json:"a"`
	Due      string `json:"d"`
	Doubt    string `json:"b"`
	Reason   string `json:"r"`
	Lane     string `json:"k"`
	Place    string `json:"p"`
	Unique   string `json:"u"`
	Fence    string `json:"f"`
	Added    string `json:"n"`
	Ended    string `json:"e"`
}

// orderingKey is the Key that the item was added with.
func (r row) orderingKey() string {
	key, found := strings.CutPrefix(r.Lane, "k:")
	if !found {
		return ""
	}
	return unescape(key)
}

// item makes an item of what a script returns. now is the server's time.
func (q *Queue[T]) item(id string, attempts int, doubt, fence string, value any, now int64) sendonce.Item[T] {
	it := sendonce.Item[T]{Key: id, Attempt: attempts, IdempotencyKey: q.idempotencyKey(id), Fence: number(fence)}
	if since := number(doubt); since != 0 {
		it.InDoubt, it.DoubtAge = true, max(time.Duration(now-since)*time.Microsecond, 1)
	}
	it.Value, it.Err = q.decode(id, value)
	return it
}

func (q *Queue[T]) decode(id string, value any) (v T, err error) {
	data, ok := value.(string)
	if !ok {
		return v, fmt.Errorf("sendonce: item %s has no value in Redis any more", id)
	}
	if err := q.options.Decode([]byte(data), &v); err != nil {
		var none T
		return none, fmt.Errorf("sendonce: item %s can't be read as a %T: %w", id, none, err)
	}
	return v, nil
}

// idempotencyKey has nothing in it that changes from one attempt to the next
// (docs/semantics.md, section 9).
func (q *Queue[T]) idempotencyKey(id string) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(q.base)) + ":" + q.base + ":0:" + id))
	return hex.EncodeToString(sum[:16])
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

// number reads one that a script has written; 0 if it is none.
func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

func at(micros any) time.Time {
	if n := number(micros); n != 0 {
		return time.UnixMicro(n)
	}
	return time.Time{}
}
