package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/sendonce/sendonce/claim"
)

// campaign is a table that is ready to be sent to.
type campaign struct {
	driver, dsn string
	table       table
	db          *sqlx.DB
	expected    map[string]int // address to the number of mails it is to get
	undo        func()         // takes back what was made, as long as nothing was sent
}

// ownColumns are those of the quick start's own table.
var ownColumns = []string{
	"id", "campaign", "name", "address",
	"status", "token", "attempts", "next_attempt", "done_at", "last_error",
}

// createTable says how the own table begins; claim.Migrate adds the rest.
var createTable = map[string]string{
	"sqlite": `CREATE TABLE %s (id INTEGER PRIMARY KEY AUTOINCREMENT, campaign TEXT NOT NULL, name TEXT NOT NULL, address TEXT NOT NULL,
		UNIQUE (campaign, address))`,
	"postgres": `CREATE TABLE %s (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, campaign text NOT NULL, name text NOT NULL,
		address text NOT NULL, UNIQUE (campaign, address))`,
	"mysql": `CREATE TABLE %s (id bigint AUTO_INCREMENT PRIMARY KEY, campaign varchar(40) NOT NULL, name text NOT NULL,
		address varchar(254) NOT NULL, UNIQUE (campaign, address)) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
}

// prepare connects and makes the table ready. If it returns an error, it has
// changed nothing.
func prepare(ctx context.Context, o options, dir folder, receivers []receiver) (_ *campaign, err error) {
	c := &campaign{driver: o.driver, dsn: o.dsn, table: table{Name: o.table}, undo: func() {}}
	cure := "start the server, or correct -dsn"
	if o.driver == "sqlite" {
		file, err := findFile(o.dsn, dir.file("receivers.db"), o.existing)
		if err != nil {
			return nil, err
		}
		c.dsn, c.undo, cure = file.dsn(), file.remove, "name a SQLite file, in a folder that can be written, with -dsn"
	}
	if c.db, err = openDatabase(c.driver, c.dsn); err != nil {
		return nil, fmt.Errorf("-dsn is not understood: %w: write it as -h shows", err)
	}
	defer func() {
		if err != nil {
			_ = c.db.Close()
			c.undo()
		}
	}()
	if err := c.ping(ctx); err != nil {
		return nil, fmt.Errorf("cannot reach the database: %w: %s", err, cure)
	}
	if o.existing {
		return c, c.useTable(ctx)
	}
	return c, c.fillTable(ctx, receivers)
}

// total is the number of mails to send.
func (c *campaign) total() int {
	total := 0
	for _, n := range c.expected {
		total += n
	}
	return total
}

func (c *campaign) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := c.db.ExecContext(ctx, "SELECT 1")
	if err == nil && c.driver == "sqlite" {
		// SQLite looks at a file only when it must.
		err = c.db.GetContext(ctx, new(int), "SELECT count(*) FROM sqlite_master")
	}
	return err
}

// useTable takes a table of the user's as it is.
func (c *campaign) useTable(ctx context.Context) error {
	// The constructor compares the table with the mapping and with Mail, and
	// names what is wrong with the SQL that mends it.
	mails, err := claim.NewAtomic[Mail](ctx, c.db, dialectOf(c.driver), c.table.mapping(), c.table.options())
	if err != nil {
		return err
	}
	counts, err := mails.Counts(ctx)
	if err != nil {
		return err
	}
	if counts.Claimed+counts.Sending > 0 {
		return fmt.Errorf("%d rows of table %s are being sent by somebody: wait until they are done", counts.Claimed+counts.Sending, c.table.Name)
	}
	if counts.Pending == 0 {
		return fmt.Errorf("no row of table %s is pending (status 0): there is nothing to send", c.table.Name)
	}
	var addresses []string
	if err := c.db.SelectContext(ctx, &addresses, "SELECT address FROM "+quoted(c.driver, c.table.Name)+" WHERE status = 0"); err != nil {
		return err
	}
	for _, address := range addresses {
		if got, err := normalise("", address); err != nil || got.Address != address {
			return fmt.Errorf("a pending row of table %s has the address %q, which cannot be sent to as it stands: mend it, or set its status to 5", c.table.Name, address)
		}
	}
	c.expect(addresses)
	return nil
}

// fillTable makes the quick start's own table, unless a run before has made it,
// and adds the receivers as a new campaign. Campaigns of other runs stay as they
// are.
func (c *campaign) fillTable(ctx context.Context, receivers []receiver) error {
	c.table.Campaign = "run of " + time.Now().UTC().Format("2006-01-02 15:04:05.000000")
	dialect, mapping, options := dialectOf(c.driver), c.table.mapping(), c.table.options()
	if _, err := claim.Schema(dialect, mapping, options); err != nil {
		return fmt.Errorf("%w: give another name with -table", err)
	}
	there, err := c.columns(ctx)
	if err == nil {
		if err := c.mustBeOurs(ctx, there); err != nil {
			return err
		}
	} else if err := c.makeTable(ctx); err != nil {
		return err
	}
	if err := c.insert(ctx, receivers); err != nil {
		return fmt.Errorf("cannot insert into table %s: %w: see whether it is one of the quick start's, or name another with -table", c.table.Name, err)
	}
	var addresses []string
	for _, r := range receivers {
		addresses = append(addresses, r.Address)
	}
	c.expect(addresses)
	return nil
}

func (c *campaign) expect(addresses []string) {
	c.expected = map[string]int{}
	for _, address := range addresses {
		c.expected[address]++
	}
}

// columns are those of the table. An error mostly means that there is none.
func (c *campaign) columns(ctx context.Context) ([]string, error) {
	rows, err := c.db.QueryxContext(ctx, "SELECT * FROM "+quoted(c.driver, c.table.Name)+" WHERE 1 = 0")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return rows.Columns()
}

// mustBeOurs refuses a table that happens to have the name.
func (c *campaign) mustBeOurs(ctx context.Context, there []string) error {
	ours := slices.Clone(ownColumns)
	slices.Sort(ours)
	slices.Sort(there)
	if !slices.Equal(ours, there) {
		return fmt.Errorf("table %s is there and is not the quick start's (its columns are %s): name another with -table, or send to it with -existing",
			c.table.Name, strings.Join(there, ", "))
	}
	return claim.Check(ctx, c.db, dialectOf(c.driver), c.table.mapping(), c.table.options())
}

func (c *campaign) makeTable(ctx context.Context) error {
	name := quoted(c.driver, c.table.Name)
	if _, err := c.db.ExecContext(ctx, fmt.Sprintf(createTable[c.driver], name)); err != nil {
		return fmt.Errorf("cannot make the table %s: %w: give another name with -table, or use a database that can be written", c.table.Name, err)
	}
	removeFile := c.undo
	c.undo = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if db, err := openDatabase(c.driver, c.dsn); err == nil {
			_, _ = db.ExecContext(ctx, "DROP TABLE "+name)
			_ = db.Close()
		}
		removeFile()
	}
	return claim.Migrate(ctx, c.db, dialectOf(c.driver), c.table.mapping(), c.table.options())
}

// insert adds all receivers or none.
func (c *campaign) insert(ctx context.Context, receivers []receiver) error {
	type row struct {
		receiver
		Campaign string `db:"campaign"`
	}
	tx, err := c.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	statement := "INSERT INTO " + quoted(c.driver, c.table.Name) + " (campaign, name, address) VALUES (:campaign, :name, :address)"
	for some := range slices.Chunk(receivers, 500) {
		rows := make([]row, len(some))
		for i, r := range some {
			rows[i] = row{r, c.table.Campaign}
		}
		if _, err := tx.NamedExecContext(ctx, statement, rows); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

// counts asks the table how it stands.
func (c *campaign) counts(ctx context.Context) (left, done, dead int64, err error) {
	mails, err := claim.NewAtomic[Mail](ctx, c.db, dialectOf(c.driver), c.table.mapping(), c.table.options())
	if err != nil {
		return 0, 0, 0, err
	}
	n, err := mails.Counts(ctx)
	return n.Left(), n.Done, n.Dead, err
}
