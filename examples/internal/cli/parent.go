package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// EnvParent tells a process that it was started by a run of the same example, whose
// end it sees in its standard input.
const EnvParent = "SENDONCE_EXAMPLE_PARENT"

// StopsWithParent ends the context when the parent is gone, if there is one.
func StopsWithParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	if os.Getenv(EnvParent) != "" {
		// Nobody reads what it prints, then, and that must not kill it.
		signal.Ignore(syscall.SIGPIPE)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	return ctx, stop
}
