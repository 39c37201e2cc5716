package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/internal/dialect"
	"github.com/sendonce/sendonce/partition"
)

// Partitioned claims rows of this process's own partitions, by the modulo of
// their key, so that workers don't meet at all. Rows are marked as Atomic marks
// them: if two processes own one partition by mistake, or while partitions move,
// they contend for its rows and no row is sent twice. It implements the same
// interfaces.
//
// Rows of a partition that no process owns wait. Every process gives back the
// claims of vanished ones, whoever's partition the rows are in.
type Partitioned[T any] struct {
	*claimer[T]
	partitioner partition.Partitioner
	last        partition.Assignment
}

var _ interface {
	sendonce.Claimer[struct{}]
	sendonce.Ender
	sendonce.Beginner
	sendonce.Reaper
	sendonce.Counter
} = &Partitioned[struct{}]{}

// NewPartitioned checks the table as Check does and makes the strategy; compare
// NewAtomic. partition.Static and partition.FromEnv make a Partitioner. Keys that
// are texts or UUIDs are divided by a hash, which SQLite can't compute: it is
// refused for them.
func NewPartitioned[T any](ctx context.Context, db *sqlx.DB, d Dialect, t Table, p partition.Partitioner, o *Options) (*Partitioned[T], error) {
	if p == nil {
		return nil, errors.New("sendonce: NewPartitioned needs a partition.Partitioner: use partition.Static or partition.FromEnv")
	}
	c, err := open[T](ctx, db, d, t, o, "")
	if err != nil {
		return nil, err
	}
	c.takesTurns = true
	s := &Partitioned[T]{claimer: c, partitioner: p}
	c.prepare = s.prepare
	if err := c.divisible(); err != nil {
		return nil, err
	}
	return s, nil
}

// prepare asks which partitions are ours now. It returns false if none is.
func (s *Partitioned[T]) prepare(ctx context.Context) (bool, error) {
	a, err := assignment(ctx, s.partitioner)
	if err != nil {
		return false, err
	}
	if a.Count == s.last.Count && slices.Equal(a.Mine, s.last.Mine) {
		return len(a.Mine) > 0, nil
	}
	only, err := s.partitionCondition(a)
	if err != nil {
		return false, err
	}
	c := s.claimer
	c.ours.Store(&only)
	c.share = max(1, a.Count/max(1, len(a.Mine)))
	// What the cursor and the low mark have passed was looked at for other
	// partitions.
	c.walker.newLap(time.Now())
	c.lowReset = time.Time{}
	s.last = partition.Assignment{Count: a.Count, Mine: slices.Clone(a.Mine)}
	return len(a.Mine) > 0, nil
}

// assignment asks which partitions are ours now, and doubts the answer.
func assignment(ctx context.Context, p partition.Partitioner) (partition.Assignment, error) {
	a, err := p.Assignment(ctx)
	if err == nil {
		err = a.Validate()
	}
	if err != nil {
		return a, fmt.Errorf("sendonce: no partition to claim from: %w", err)
	}
	return a, nil
}

// divisible says whether the database can divide the table by its key.
func (n *names) divisible() error {
	if _, err := n.partitionCondition(partition.Assignment{Count: 2, Mine: []int{0}}); err != nil {
		return fmt.Errorf("sendonce: table %s cannot be divided by column %q: %w", n.source, n.col.Key, err)
	}
	return nil
}

// partitionCondition is true for rows of the partitions.
func (n *names) partitionCondition(a partition.Assignment) (string, error) {
	if len(a.Mine) == 0 {
		return " AND 1 = 0", nil
	}
	kind := map[dialect.KeyKind]partition.Kind{
		dialect.KeyInt: partition.KindInt, dialect.KeyUint: partition.KindUint,
		dialect.KeyText: partition.KindText, dialect.KeyChar: partition.KindText, dialect.KeyUUID: partition.KindUUID,
	}[n.keyKind]
	write := partition.SQLite
	switch n.d {
	case dialect.Postgres:
		write = partition.Postgres
	case dialect.MySQL:
		write = partition.MySQL
	}
	expr, err := write(n.key, kind, a.Count)
	if err != nil {
		return "", err
	}
	ks := make([]string, len(a.Mine))
	for i, k := range a.Mine {
		ks[i] = strconv.Itoa(k)
	}
	return " AND " + n.d.Opaque(expr+" IN ("+strings.Join(ks, ", ")+")"), nil
}
