// Command fleetwright is the command line: it checks fleet repositories offline and explains rollouts. Installed as
// kubectl-fleetwright it is a kubectl plugin.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
}

// run returns the exit code: 0 is good, 1 means findings or an error; a command may ask for another one.
func run(ctx context.Context, args []string, streams Streams) int {
	root := newRoot(streams)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var exit interface{ ExitCode() int }
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode() // what there is to say was printed
	}
	fmt.Fprintln(streams.ErrOut, "fleetwright:", err)
	return 1
}

// exitError ends the program with a code after a command has printed its result.
type exitError struct {
	code   int
	reason string
}

// Error says why, for tests and logs; run prints nothing.
func (e *exitError) Error() string { return e.reason }

// ExitCode of the program.
func (e *exitError) ExitCode() int { return e.code }
