package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// options are the flags of the demo.
type options struct {
	keep        bool
	chaos       time.Duration
	seed        int64
	repository  string
	reconciler  string
	fleetwright string
	logs        string
}

func main() {
	log.SetLogger(logr.Discard()) // the clients of the demo have nothing to say
	var o options
	flag.BoolVar(&o.keep, "keep", false, "leave everything running at the end and print the kubeconfig")
	flag.DurationVar(&o.chaos, "chaos", 0, "kill the reconciler (SIGKILL) about this often; 0: never")
	flag.Int64Var(&o.seed, "seed", 1, "seed of the moments at which --chaos kills")
	flag.StringVar(&o.repository, "repository", "fleet-example", "directory of the fleet repository to push")
	flag.StringVar(&o.reconciler, "reconciler", "bin/fleetwright-reconciler", "the reconciler's binary")
	flag.StringVar(&o.fleetwright, "fleetwright", "bin/fleetwright", "the command line's binary")
	flag.StringVar(&o.logs, "logs", "", "file for the reconciler's log; default: in the demo's directory")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

// run tells the story in a lab that is taken down at the end.
func run(ctx context.Context, o options) error {
	screen := newScreen(os.Stdout)
	stage, err := openStage(ctx, o, screen)
	if stage != nil {
		defer stage.close()
	}
	if err != nil {
		return err
	}
	story := &story{stage: stage, screen: screen}
	if err := errors.Join(story.tell(ctx), stage.witness.verdict()); err != nil {
		stage.quoteLog(os.Stderr)
		return err
	}
	if stage.kills() > 0 {
		screen.say("The reconciler was killed %d times on the way.", stage.kills())
	}
	screen.say("demo: %d pushes, %d nodes, all as expected", len(story.pushes()), nodeCount)
	if o.keep {
		screen.say("Everything keeps running until you press Ctrl-C. In another terminal:\n\n  export KUBECONFIG=%s\n", stage.Plane.Kubeconfig())
		<-ctx.Done()
	}
	return nil
}
