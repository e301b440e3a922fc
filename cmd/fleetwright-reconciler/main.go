// fleetwright-reconciler is the in-cluster process: it delivers what git says and rolls it out. With --review it is the reviewer, which
// plans pull requests and nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/confined"
)

// version is set at build time.
var version = "dev"

func main() {
	if confined.IsChild(os.Args) { // before anything else: this process is to hold nothing
		os.Exit(confined.Child(os.Args))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parseOptions(os.Args[1:], os.Getenv, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleetwright-reconciler:", err)
		os.Exit(1)
	}
	slog.Info("stopped")
}
