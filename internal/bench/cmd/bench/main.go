// Command bench measures the strategies against each other, against rivals and
// against hand-written loops.
package main

import (
	"context"
	"fmt"
	"os"

	bench "github.com/sendonce/sendonce/internal/bench"
	"github.com/sendonce/sendonce/internal/bench/child"
	"github.com/sendonce/sendonce/internal/bench/contender"
)

func main() {
	ctx := context.Background()
	if len(os.Args) == 3 && os.Args[1] == "work" {
		job, err := child.ParseJob(os.Args[2])
		if err == nil {
			err = contender.Run(ctx, job)
		}
		if err != nil {
			child.Fail(err)
		}
		return
	}
	h := &bench.Host{Dir: os.TempDir(), Self: []string{os.Args[0], "work"}, Out: os.Stdout}
	defer h.Close()
	j := func(c string, b, w int) child.Job { return child.Job{Contender: c, Rows: 100000, Batch: b, Workers: w} }
	sk := j("skiplocked", 1000, 2)
	sk.Profile = "/tmp/bench-skip.prof"
	mem := j("memory", 1000, 1)
	mem.Rows = 1000000
	mem.Profile = "/tmp/bench-mem.prof"
	specs := []bench.Spec{
		{Name: "skiplocked", Database: "postgres", Job: sk},
		{Name: "skiplocked W4", Database: "postgres", Job: j("skiplocked", 1000, 4)},
		{Name: "limit-skiplocked", Database: "postgres", Job: j("limit-skiplocked", 1000, 2)},
		{Name: "limit-sql-postgres", Database: "postgres", Job: j("limit-sql-postgres", 1000, 2)},
		{Name: "atomic", Database: "postgres", Job: j("atomic", 1000, 2)},
		{Name: "locked", Database: "postgres", Redis: true, Job: j("locked", 100, 4)},
		{Name: "skiplocked-100", Database: "postgres", Job: j("skiplocked", 100, 4)},
		{Name: "partitioned", Database: "postgres", Job: j("partitioned", 1000, 2)},
		{Name: "unmarked", Database: "postgres", Job: j("unmarked", 1000, 2)},
		{Name: "limit-unmarked", Database: "postgres", Job: j("limit-unmarked", 1000, 2)},
		{Name: "sqlite atomic", Database: "sqlite", Job: j("atomic", 1000, 1)},
		{Name: "sqlite limit", Database: "sqlite", Job: j("limit-sql-sqlite", 1000, 1)},
		{Name: "maria skip", Database: "mariadb", Job: j("skiplocked", 1000, 2)},
		{Name: "maria limit", Database: "mariadb", Job: j("limit-sql-mariadb", 1000, 2)},
		{Name: "memory", Job: mem},
	}
	if len(os.Args) > 1 {
		h.Tell = true
		specs = specs[:4]
	} else {
		specs = []bench.Spec{
			{Name: "skiplocked W1", Database: "postgres", Job: j("skiplocked", 1000, 1)},
			{Name: "skiplocked W2", Database: "postgres", Job: sk},
			{Name: "limit W1", Database: "postgres", Job: j("limit-skiplocked", 1000, 1)},
			{Name: "limit W2", Database: "postgres", Job: j("limit-skiplocked", 1000, 2)},
			{Name: "limit W4", Database: "postgres", Job: j("limit-skiplocked", 1000, 4)},
			{Name: "unmarked W1", Database: "postgres", Job: j("unmarked", 1000, 1)},
			{Name: "ff33 skiplocked W1", Layout: "ff33", Database: "postgres", Job: j("skiplocked", 1000, 1)},
			specs[14],
		}
	}
	rs, err := h.RunRounds(ctx, specs, 1)
	for _, r := range rs {
		fmt.Printf("%-20s %+v\n", r.Spec.Name, r.Median)
	}
	if err != nil {
		fmt.Println(err)
	}
}
