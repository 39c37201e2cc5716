// Package partition divides rows among processes by their key, so that each works
// on its own part and they don't meet.
//
// A row belongs to partition Of(key, n), a number from 0 to n-1; and Postgres,
// MySQL and SQLite write the same as SQL. A Partitioner says which partitions
// this process may work on: Static and FromEnv give it one for good.
//
// A wrong partition costs contention, and never a second send, as long as claims
// are marked (docs/semantics.md, section 11). A partition that no process has is
// not worked on: the number of processes and n must agree.
package partition

import (
	"context"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// MaxCount is the largest number of partitions: more than that is a mistake.
const MaxCount = 1 << 16

// Assignment says which partitions, of how many, a process may work on.
type Assignment struct {
	// Count is the number of partitions of all processes together, 1 to
	// MaxCount.
	Count int

	// Mine are those that this process may work on, ascending, each from 0 to
	// Count-1. Empty: none at the moment.
	Mine []int

	// Until is when the assignment may end. Zero: it doesn't.
	Until time.Time
}

// Has reports whether the partition is one of the process's own.
func (a Assignment) Has(partition int) bool { return slices.Contains(a.Mine, partition) }

// Validate returns an error that says what is wrong with the assignment.
func (a Assignment) Validate() error {
	if err := checkCount(a.Count); err != nil {
		return err
	}
	for i, k := range a.Mine {
		if k < 0 || k >= a.Count {
			return fmt.Errorf("sendonce: partition %d of %d: it must be from 0 to %d", k, a.Count, a.Count-1)
		}
		if i > 0 && k <= a.Mine[i-1] {
			return fmt.Errorf("sendonce: partitions %v are not in ascending order", a.Mine)
		}
	}
	return nil
}

func checkCount(n int) error {
	if n < 1 || n > MaxCount {
		return fmt.Errorf("sendonce: %d partitions: there must be from 1 to %d", n, MaxCount)
	}
	return nil
}

// Partitioner says what a process may work on. It is asked before each claim, so
// it answers from memory, and what it says may change from one time to the next:
// rows claimed before stay with who claimed them. It is asked by several
// goroutines at once. The slice in what it returns is not written to by anybody.
// An error ends the claim and not the process, which will ask again.
type Partitioner interface {
	Assignment(ctx context.Context) (Assignment, error)
}

// static is an assignment for good.
type static Assignment

func (s static) Assignment(context.Context) (Assignment, error) { return Assignment(s), nil }

// Static returns a Partitioner for a process that is number k, from 0, of n.
func Static(k, n int) (Partitioner, error) {
	a := Assignment{Count: n, Mine: []int{k}}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	return static(a), nil
}

// Int returns the partition of an integer key: its remainder, which is never
// negative. It panics if n is not from 1 to MaxCount.
func Int(key int64, n int) int {
	mustCount(n)
	m := int64(n)
	return int((key%m + m) % m)
}

// Uint returns the partition of an unsigned key: its remainder. For keys that an
// int64 holds too it is the same as Int. It panics if n is not from 1 to MaxCount.
func Uint(key uint64, n int) int {
	mustCount(n)
	return int(key % uint64(n))
}

// Text returns the partition of a text, or of a UUID in the form in which the
// database prints it (lower case, with hyphens): the first 32 bits of the MD5 of
// its UTF-8 bytes, as an unsigned number, modulo n. That will not change. MD5 is
// taken as what all databases have, and is no secret here. It panics if n is not
// from 1 to MaxCount.
func Text(key string, n int) int {
	mustCount(n)
	sum := md5.Sum([]byte(key))
	return int(binary.BigEndian.Uint32(sum[:4]) % uint32(n))
}

// Of returns the partition of a key as sendonce has it: an int64, a uint64 or a
// string. Another type, or an n that is not from 1 to MaxCount, is an error.
func Of(key any, n int) (int, error) {
	if err := checkCount(n); err != nil {
		return 0, err
	}
	switch key := key.(type) {
	case int64:
		return Int(key, n), nil
	case uint64:
		return Uint(key, n), nil
	case string:
		return Text(key, n), nil
	}
	return 0, fmt.Errorf("sendonce: a key of type %T has no partition: it must be an int64, a uint64 or a string", key)
}

func mustCount(n int) {
	if err := checkCount(n); err != nil {
		panic(err)
	}
}
