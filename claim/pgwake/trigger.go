package pgwake

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// Trigger returns the statements that make every INSERT into the table notify
// the channel when it is committed: once per transaction, whatever the number of
// rows. They may be run again, and all at once or one by one. The table's name
// may have a schema before it, with a dot between. The function sendonce_wake is
// shared by all such triggers of a schema.
//
// It takes PostgreSQL 11. Run it as the owner of the table. DROP TRIGGER
// sendonce_wake ON the table undoes it.
func Trigger(table, channel string) string {
	name := pgx.Identifier(strings.Split(table, ".")).Sanitize()
	return `CREATE OR REPLACE FUNCTION sendonce_wake() RETURNS trigger LANGUAGE plpgsql AS $sendonce$
BEGIN
	PERFORM pg_notify(TG_ARGV[0], '');
	RETURN NULL;
END
$sendonce$;
DROP TRIGGER IF EXISTS sendonce_wake ON ` + name + `;
CREATE TRIGGER sendonce_wake AFTER INSERT ON ` + name + `
	FOR EACH STATEMENT EXECUTE FUNCTION sendonce_wake(` + literal(channel) + `);
`
}

// literal quotes a text. A backslash would mean something with
// standard_conforming_strings off.
func literal(s string) string {
	s = strings.ReplaceAll(s, "\x00", "")
	if strings.ContainsRune(s, '\\') {
		return "E'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
