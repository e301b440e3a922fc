package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	cm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	cmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/pkg/controller/job"
)

// controllerNames are what Jobs, evictions, budgets, workloads, namespaces and garbage collection need; each further
// controller costs memory and watches.
func controllerNames(nodeLifecycle bool) []string {
	names := []string{
		"job-controller", "cronjob-controller", "ttl-after-finished-controller",
		"deployment-controller", "replicaset-controller", "daemonset-controller", "statefulset-controller",
		"disruption-controller", "pod-garbage-collector-controller", "garbage-collector-controller",
		"namespace-controller", "serviceaccount-controller", "serviceaccount-token-controller",
		"root-ca-certificate-publisher-controller",
	}
	if nodeLifecycle {
		names = append(names, "node-lifecycle-controller", "taint-eviction-controller")
	}
	return names
}

// runControllers runs kube-controller-manager until ctx ends.
func runControllers(ctx context.Context, o options) error {
	// Kubernetes' own integration tests set these variables too: there is no flag for them.
	job.SyncJobBatchPeriod, job.DefaultJobApiBackOff = o.jobSyncPeriod, o.jobSyncPeriod
	s, err := cmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("make kube-controller-manager options: %w", err)
	}
	all, off, aliases := cm.KnownControllers(), cm.ControllersDisabledByDefault(), cm.ControllerAliases()
	named := s.Flags(all, off, aliases)
	s.ParsedFlags = &named
	fs := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	for _, f := range named.FlagSets {
		fs.AddFlagSet(f)
	}
	pki := filepath.Join(o.dir, "pki")
	err = fs.Parse([]string{
		"--kubeconfig=" + filepath.Join(o.dir, "controllers.kubeconfig"), "--leader-elect=false", "--secure-port=0",
		"--use-service-account-credentials=false",
		"--service-account-private-key-file=" + filepath.Join(pki, "sa.key"),
		"--root-ca-file=" + filepath.Join(pki, "ca.crt"),
		"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--controllers=" + strings.Join(controllerNames(o.nodeLifecycle), ","),
	})
	if err != nil {
		return fmt.Errorf("parse kube-controller-manager flags: %w", err)
	}
	c, err := s.Config(ctx, all, off, aliases)
	if err != nil {
		return fmt.Errorf("configure kube-controller-manager: %w", err)
	}
	return cm.Run(ctx, c.Complete())
}
