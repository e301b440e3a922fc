package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	log.SetLogger(logr.Discard()) // the clients have nothing to say
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "directory of fleetwright and fleetwright-reconciler")
	flag.StringVar(&o.env, "env", "bin/playground.env", "file to write for a shell to source")
	flag.DurationVar(&o.chaos, "chaos", 0, "kill reconciler and reviewer (SIGKILL) about this often; 0: never")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	bin, env string
	chaos    time.Duration
}

func run(ctx context.Context, o options, args []string) error {
	if len(args) == 0 {
		return play(ctx, o)
	}
	f, err := forgeFromEnv()
	if err != nil {
		return err
	}
	switch {
	case args[0] == "statuses" && len(args) == 2:
		return f.statuses(ctx, args[1])
	case args[0] == "await" && len(args) == 4:
		return f.await(ctx, want{args[1], args[2], args[3]})
	case args[0] == "comments" && len(args) == 2:
		return f.comments(ctx, args[1])
	}
	return fmt.Errorf("unknown command %q (allowed: statuses REV, await REV CONTEXT STATE, comments N)", args)
}
