package pgwake_test

import (
	"fmt"

	"github.com/sendonce/sendonce/claim/pgwake"
)

func ExampleTrigger() {
	fmt.Print(pgwake.Trigger("public.receivers", "receivers"))
	// Output:
	// CREATE OR REPLACE FUNCTION sendonce_wake() RETURNS trigger LANGUAGE plpgsql AS $sendonce$
	// BEGIN
	// 	PERFORM pg_notify(TG_ARGV[0], '');
	// 	RETURN NULL;
	// END
	// $sendonce$;
	// DROP TRIGGER IF EXISTS sendonce_wake ON "public"."receivers";
	// CREATE TRIGGER sendonce_wake AFTER INSERT ON "public"."receivers"
	// 	FOR EACH STATEMENT EXECUTE FUNCTION sendonce_wake('receivers');
}
