package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sendonce/sendonce"
)

// book has the invoices, and a ledger of all that was done to make them. It is in
// Redis too, which does one thing after the other, so that the ledger's order is
// the true one. A database with a transaction would do as well.
type book struct {
	rdb  *redis.Client
	base string
}

// The steps of making an invoice.
const (
	begun  = "begun"
	made   = "made"
	failed = "failed"
)

// entry is a line of the ledger.
type entry struct {
	Step     string `json:"step"`
	Customer string `json:"customer"`
	ID       string `json:"id"` // of the request
	Fence    string `json:"fence"`
	Instance string `json:"instance"`
	Attempt  int    `json:"attempt"`
	Number   int    `json:"number"` // of the invoice, from 1 for each customer
}

//go:embed book.lua
var bookText string

var bookScript = redis.NewScript(bookText)

func newBook(rdb *redis.Client, name string) *book {
	return &book{rdb, "sendonce:ordered:{" + name + "}:"}
}

func (b *book) keys() []string {
	return []string{b.base + "ledger", b.base + "fences", b.base + "numbers", b.base + "invoices"}
}

var errStale = errors.New("another instance goes on with this customer")

// write writes a step. The fence is what makes it safe: an instance that stood still
// for a minute, and goes on in the middle of a creation that another one has taken
// over, can't write any more.
func (b *book) write(ctx context.Context, step, instance string, it sendonce.Item[request]) error {
	answer, err := bookScript.Run(ctx, b.rdb, b.keys(), step, it.Value.Customer, it.Key, it.Fence, instance, it.Attempt).Text()
	if err == nil && answer == "stale" {
		err = errStale
	}
	return err
}

// number returns the number of an invoice, if it is made.
func (b *book) number(ctx context.Context, id string) (n int, found bool, err error) {
	text, err := b.rdb.HGet(ctx, b.keys()[3], id).Result()
	if errors.Is(err, redis.Nil) {
		return 0, false, nil
	}
	if err == nil {
		n, err = strconv.Atoi(text)
	}
	return n, err == nil, err
}

func (b *book) ledger(ctx context.Context) ([]entry, error) {
	lines, err := b.rdb.LRange(ctx, b.keys()[0], 0, -1).Result()
	if err != nil {
		return nil, err
	}
	entries := make([]entry, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &entries[i]); err != nil {
			return nil, fmt.Errorf("line %d of the ledger: %w", i+1, err)
		}
	}
	return entries, nil
}

// create makes an invoice. The work before the number is given stands for whatever
// takes time and must not be done for two invoices of a customer at once.
func (b *book) create(ctx context.Context, instance string, work time.Duration, it sendonce.Item[request]) error {
	if err := b.write(ctx, begun, instance, it); err != nil {
		return err
	}
	select {
	case <-time.After(work):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if it.Attempt == 1 && it.Value.Fails {
		return errors.Join(errors.New("the printer is out of paper"), b.write(ctx, failed, instance, it))
	}
	return b.write(ctx, made, instance, it)
}
