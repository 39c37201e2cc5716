// Package cli has what the examples' main functions share.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

const interrupted = 130 // the exit code after Ctrl-C or SIGTERM

type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// Failed marks an error that says that something did not go as promised.
func Failed(err error) error { return failure{err} }

// ExitCode is 0 if all went as promised, 1 if not, 2 if what was asked for can't be
// done, and 130 after an interrupt. It prints one line that says why, for an
// interrupt the given words.
func ExitCode(ctx context.Context, name, interrupt string, err error) int {
	var failed failure
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case ctx.Err() != nil && !errors.As(err, &failed):
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, interrupt)
		return interrupted
	}
	// Drivers and clients make several lines.
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, strings.Join(strings.Fields(err.Error()), " "))
	if errors.As(err, &failed) {
		return 1
	}
	return 2
}
