// The buildcontrolplane program builds the control plane for tests and the demo into its cache and prints the path, so
// that no later command has to wait for it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleetwright/fleetwright/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := cluster.Build(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "buildcontrolplane:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
