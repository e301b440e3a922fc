// The buildcontrolplane program builds the control plane for tests and the demo into its cache and prints the path, so
// that no later command has to wait for it. With -kubelet it does so for the kubelet of the end-to-end suite.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fleetwright/fleetwright/test/cluster"
)

func main() {
	kubelet := flag.Bool("kubelet", false, "build the kubelet instead")
	flag.Parse()
	build := cluster.Build
	if *kubelet {
		build = cluster.BuildKubelet
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := build(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "buildcontrolplane:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
