package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sendonce/sendonce/examples/internal/demo"
	"github.com/sendonce/sendonce/partition"
)

// lead makes the table, starts the workers, stops them when all is sent, and
// judges by what they said.
func lead(ctx context.Context, f demo.Flags, send time.Duration) error {
	db, _, done, err := demo.Open(ctx, &f)
	if err != nil {
		return err
	}
	defer done()
	fl, err := startFleet(f, send)
	if err != nil {
		fl.abandon()
		return err
	}
	t := tally{rows: map[int]int{}, of: make([]int, f.Workers)}
	for len(t.rows) < f.Rows {
		select {
		case s := <-fl.sends:
			t.add(s)
		case err := <-fl.ended:
			fl.ended <- err
			fl.abandon()
			return errors.Join(errors.New("a worker ended too early"), err)
		case <-ctx.Done():
			fl.abandon()
			return ctx.Err()
		}
	}
	if err := fl.terminate(); err != nil {
		fl.abandon()
		return err
	}
	for s := range fl.sends {
		t.add(s)
	}
	for range fl.workers {
		err = errors.Join(err, <-fl.ended)
	}
	if err != nil {
		return demo.Failed(fmt.Errorf("after SIGTERM: %w", err))
	}
	var marked int
	if err := db.GetContext(ctx, &marked, "SELECT COUNT(*) FROM "+demo.Table.Name+" WHERE status = 3"); err != nil {
		return err
	}
	return t.judge(f, marked)
}

// tally counts sends.
type tally struct {
	rows    map[int]int // by row
	of      []int       // by partition
	strayed int         // by another partition than the row's
}

func (t *tally) add(s sent) {
	t.rows[s.row]++
	t.of[s.partition]++
	if partition.Int(int64(s.row), len(t.of)) != s.partition {
		t.strayed++
	}
}

func (t *tally) judge(f demo.Flags, marked int) error {
	twice := 0
	for _, n := range t.rows {
		if n > 1 {
			twice++
		}
	}
	for k, n := range t.of {
		fmt.Printf("partition %d sent %d rows\n", k, n)
	}
	fmt.Printf("%d rows sent, %d of them by another partition, %d twice; %d are marked\n", len(t.rows), t.strayed, twice, marked)
	if len(t.rows) != f.Rows || marked != f.Rows || twice > 0 || t.strayed > 0 {
		return demo.Failed(fmt.Errorf("%d rows of %d were sent, %d twice and %d by another partition, and %d are marked", len(t.rows), f.Rows, twice, t.strayed, marked))
	}
	return nil
}
