package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// stopLimit bounds a clean stop; after it the process ends anyway, because nothing here is worth keeping.
const stopLimit = 20 * time.Second

// options are the program's flags.
type options struct {
	dir           string
	controllers   bool
	nodeLifecycle bool
	scheduler     bool
	fairness      bool
	exitWithStdin bool
	jobSyncPeriod time.Duration
}

func parseOptions(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	fs.StringVar(&o.dir, "dir", "", "state directory, made if missing; a second start on it finds the first one's data (required)")
	fs.BoolVar(&o.controllers, "controllers", false, "run kube-controller-manager")
	fs.BoolVar(&o.nodeLifecycle, "node-lifecycle", false,
		"with -controllers: also mark and taint nodes whose heartbeats stop, and evict from them")
	fs.BoolVar(&o.scheduler, "scheduler", false, "run kube-scheduler")
	fs.BoolVar(&o.fairness, "priority-and-fairness", false, "limit request rates as a real cluster does; off, nothing is limited")
	fs.DurationVar(&o.jobSyncPeriod, "job-sync-period", time.Second, "with -controllers: how long the Job controller gathers changes of pods before it looks at their Job")
	fs.BoolVar(&o.exitWithStdin, "exit-with-stdin", false, "stop when standard input ends")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: this program takes flags only", fs.Arg(0))
	}
	if o.dir == "" {
		return o, errors.New("-dir is required: the directory for the cluster's state")
	}
	if o.nodeLifecycle && !o.controllers {
		return o, errors.New("-node-lifecycle needs -controllers: it is one of kube-controller-manager's controllers")
	}
	dir, err := filepath.Abs(o.dir)
	o.dir = dir
	return o, err
}

func main() {
	o, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if o.exitWithStdin {
		ctx = untilEOF(ctx, os.Stdin)
	}
	context.AfterFunc(ctx, func() { time.AfterFunc(stopLimit, func() { os.Exit(1) }) })
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

// untilEOF ends the context when r ends. A parent that holds the other end of the pipe cannot leave us behind,
// whatever way it dies and on whatever operating system.
func untilEOF(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	return ctx
}

// run starts every component in order and stops them in the opposite order, so that controllers do not write to a
// server that is going and the server does not outlive its store.
func run(ctx context.Context, o options) error {
	listener, err := listen(o.dir)
	if err != nil {
		return err
	}
	defer listener.Close()
	creds, err := loadOrCreateCredentials(filepath.Join(o.dir, "pki"))
	if err != nil {
		return err
	}
	address := "https://" + listener.Addr().String()
	if err := creds.writeKubeconfigs(o.dir, address); err != nil {
		return err
	}
	store, err := startEtcd(ctx, filepath.Join(o.dir, "etcd"))
	if err != nil {
		return err
	}
	defer store.Close()

	server, err := start(ctx, "kube-apiserver", func(ctx context.Context) error {
		return runAPIServer(ctx, apiServerConfig{
			dir: o.dir, credentials: creds, listener: listener, etcd: store.endpoint, fairness: o.fairness,
		})
	})
	if err != nil {
		return err
	}
	defer server.stop()
	if err := waitReady(ctx, address, creds, server.failed); err != nil {
		return err
	}
	return runClients(ctx, o, address, server)
}

// runClients runs the components that are the API server's clients until ctx ends or one of them fails.
func runClients(ctx context.Context, o options, address string, server *component) error {
	failed := server.failed
	if o.controllers {
		c, err := start(ctx, "kube-controller-manager", func(ctx context.Context) error { return runControllers(ctx, o) })
		if err != nil {
			return err
		}
		defer c.stop()
		failed = either(failed, c.failed)
	}
	if o.scheduler {
		c, err := start(ctx, "kube-scheduler", func(ctx context.Context) error { return runScheduler(ctx, o.dir) })
		if err != nil {
			return err
		}
		defer c.stop()
		failed = either(failed, c.failed)
	}
	fmt.Println("ready", address)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}
