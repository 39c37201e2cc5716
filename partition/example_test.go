package partition_test

import (
	"context"
	"fmt"
	"os"

	"github.com/sendonce/sendonce/partition"
)

func ExampleStatic() {
	p, err := partition.Static(1, 4)
	if err != nil {
		panic(err)
	}
	a, _ := p.Assignment(context.Background())
	for _, id := range []int64{-7, 1, 5, 6} {
		fmt.Println(id, a.Has(partition.Int(id, a.Count)))
	}
	_, err = partition.Static(4, 4)
	fmt.Println(err)
	// Output:
	// -7 true
	// 1 true
	// 5 true
	// 6 false
	// sendonce: partition 4 of 4: it must be from 0 to 3
}

func ExampleFromEnv() {
	os.Setenv("WORKER_PARTITION", "4")
	os.Setenv("WORKER_COUNT", "4")
	_, err := partition.FromEnv()
	fmt.Println(err)
	// Output:
	// sendonce: WORKER_PARTITION is "4": it must be a number from 0 to 3, as WORKER_COUNT is "4"
}

func ExampleOf() {
	for _, key := range []any{int64(-7), uint64(1 << 63), "1b4e28ba-2fa1-11d2-883f-0016d3cca427"} {
		k, err := partition.Of(key, 3)
		fmt.Println(k, err)
	}
	// Output:
	// 2 <nil>
	// 2 <nil>
	// 0 <nil>
}

func ExamplePostgres() {
	id, _ := partition.Postgres(`"id"`, partition.KindInt, 4)
	uuid, _ := partition.Postgres(`"id"`, partition.KindUUID, 4)
	fmt.Println("SELECT id FROM receivers WHERE " + id + " = 2")
	fmt.Println("SELECT id FROM messages WHERE " + uuid + " = 2")
	// Output:
	// SELECT id FROM receivers WHERE (("id" % 4 + 4) % 4) = 2
	// SELECT id FROM messages WHERE (('x' || substr(md5(convert_to(("id")::text, 'UTF8')), 1, 8))::bit(32)::bigint % 4) = 2
}

func ExampleMySQL() {
	id, _ := partition.MySQL("`id`", partition.KindUint, 4)
	text, _ := partition.MySQL("`id`", partition.KindText, 4)
	fmt.Println(id)
	fmt.Println(text)
	// Output:
	// (`id` % 4)
	// (CAST(CONV(SUBSTR(MD5(CONVERT(`id` USING utf8mb4)), 1, 8), 16, 10) AS UNSIGNED) % 4)
}

func ExampleSQLite() {
	id, _ := partition.SQLite(`"id"`, partition.KindInt, 4)
	fmt.Println(id)
	_, err := partition.SQLite(`"id"`, partition.KindText, 4)
	fmt.Println(err)
	// Output:
	// (("id" % 4 + 4) % 4)
	// sendonce: partitions by a text need MD5, which SQLite does not have: use an integer key
}
