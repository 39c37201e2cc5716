package main

import (
	"context"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim"
)

// Mail is what a worker needs to know of a receiver. The columns that are
// tagged are read, and no others.
type Mail struct {
	Address string `db:"address"`
	Name    string `db:"name"`
}

// work is a whole worker, as it would stand in a service of yours. Only the
// three uses of diary are the quick start's own: they tell the parent process
// what the worker is about to do and what it has recorded.
func work(ctx context.Context, job job, diary *diary) error {
	db, err := openDatabase(job.Driver, job.DSN)
	if err != nil {
		return err
	}
	defer db.Close()

	mails, err := claim.NewAtomic[Mail](ctx, db, dialectOf(job.Driver), job.Table.mapping(), job.Table.options())
	if err != nil {
		return err
	}
	smtp := newMailer(job.SMTP, job.Worker, concurrency)
	defer smtp.close()

	d, err := sendonce.New(diary.watch(mails), diary.announce(smtp.deliver), sendonce.Config{
		Concurrency: concurrency,
		BatchSize:   50,
		SendTimeout: job.SendTimeout,
		Lease:       job.Lease, // how soon the rows of a killed worker come back
		Owner:       job.Worker,
		Hooks:       diary.hooks(),
	})
	if err != nil {
		return err
	}
	_, err = d.Drain(ctx) // until nothing is left; d.Run(ctx) would wait for more
	return err
}

// concurrency is the number of mails that one worker sends at once.
const concurrency = 8
