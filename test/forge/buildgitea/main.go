// The buildgitea program builds Gitea for tests and the playground into its cache and prints the path, so that no later command
// has to wait for it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleetwright/fleetwright/test/forge"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := forge.Build(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "buildgitea:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
