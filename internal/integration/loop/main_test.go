// Package loop tests what a Dispatcher promises when something breaks around it,
// over real claim strategies on real servers: the line, the server, the worker's
// process, or the Sender.
package loop

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/sendonce/sendonce/internal/integration/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVar) != "" {
		if err := work(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	_ = mysql.SetLogger(&mysql.NopLogger{}) // that a line breaks is no news here
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("8") // these tests wait, and don't compute
	}
	servers.Main(m)
}
