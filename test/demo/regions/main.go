package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/gitserver"
	"github.com/fleetwright/fleetwright/test/lab"
)

// limit bounds the whole story.
const limit = 10 * time.Minute

// options are the flags.
type options struct{ repository, reconciler string }

func main() {
	log.SetLogger(logr.Discard()) // the clients of the demo have nothing to say
	var o options
	flag.StringVar(&o.repository, "repository", "fleet-example", "directory of the fleet repository to push")
	flag.StringVar(&o.reconciler, "reconciler", "bin/fleetwright-reconciler", "the reconciler's binary")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo-regions: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w := &world{begin: time.Now()}
	defer w.close()
	if err := w.open(ctx, o); err != nil {
		return err
	}
	if err := w.tell(ctx); err != nil {
		for _, r := range w.regions {
			r.process.Quote(os.Stderr)
		}
		return err
	}
	w.say("demo-regions: 3 regions, 3 commits, all as expected")
	return nil
}

// world is everything that runs.
type world struct {
	begin   time.Time
	dir     string
	git     *gitserver.Server
	clone   *lab.Clone
	regions []*region
}

func (w *world) say(format string, args ...any) {
	fmt.Printf("%5.1fs  %s\n", time.Since(w.begin).Seconds(), fmt.Sprintf(format, args...))
}

// open starts the git server and the regions. No region knows of another.
func (w *world) open(ctx context.Context, o options) error {
	var err error
	if w.dir, err = os.MkdirTemp("", "fleetwright-regions-"); err != nil {
		return fmt.Errorf("make the demo's directory: %w", err)
	}
	if _, err := cluster.Build(ctx, os.Stdout); err != nil {
		return fmt.Errorf("build the control plane: %w", err)
	}
	if w.git, err = gitserver.New(filepath.Join(w.dir, "git"), gitserver.Options{}); err != nil {
		return fmt.Errorf("start the git server: %w", err)
	}
	if err := w.git.CreateRepo("fleet"); err != nil {
		return err
	}
	files, err := lab.ReadRepository(o.repository)
	if err != nil {
		return err
	}
	if w.clone, err = lab.NewClone(ctx, filepath.Join(w.dir, "clone"), w.git.URL("fleet"), files); err != nil {
		return err
	}
	for _, r := range theRegions() {
		w.say("region %s: a control plane, %d simulated nodes, a reconciler", r.name, nodesOf(r.tiers))
		w.regions = append(w.regions, r)
		if err := r.start(ctx, filepath.Join(w.dir, r.name), o.reconciler); err != nil {
			return fmt.Errorf("region %s: %w", r.name, err)
		}
	}
	return nil
}

// close stops everything in the reverse order.
func (w *world) close() {
	var errs error
	for _, r := range w.regions {
		r.close()
	}
	if w.git != nil {
		errs = errors.Join(errs, w.git.Close())
	}
	if errs = errors.Join(errs, os.RemoveAll(w.dir)); errs != nil {
		fmt.Fprintln(os.Stderr, errs)
	}
}
