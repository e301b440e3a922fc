package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedoptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// runScheduler runs kube-scheduler with its default profile until ctx ends.
func runScheduler(ctx context.Context, dir string) error {
	o := schedoptions.NewOptions()
	fs := pflag.NewFlagSet("kube-scheduler", pflag.ContinueOnError)
	for _, f := range o.Flags.FlagSets {
		fs.AddFlagSet(f)
	}
	kubeconfig := filepath.Join(dir, "scheduler.kubeconfig")
	err := fs.Parse([]string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000",
	})
	if err != nil {
		return fmt.Errorf("parse kube-scheduler flags: %w", err)
	}
	config, scheduler, err := app.Setup(ctx, o)
	if err != nil {
		return fmt.Errorf("set up kube-scheduler: %w", err)
	}
	return app.Run(ctx, config, scheduler)
}
