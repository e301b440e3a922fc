package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// envPrefix starts the environment variable of every flag: --agent-image is FLEETWRIGHT_AGENT_IMAGE.
const envPrefix = "FLEETWRIGHT_"

// minLease leaves the leader three tries to renew its lease on a slow API server.
const minLease = 3 * time.Second

// maxAttempts is more than anybody waits for, as the pause between them doubles.
const maxAttempts = 100

// options are the flags.
type options struct {
	kubeconfig       string
	namespace        string
	podName          string // from the chart; empty outside of the cluster
	agentImage       string
	hostRoot         string
	executionAccount string
	interruptAccount string
	attempts         int
	stageTimeout     time.Duration
	retryBackoff     time.Duration
	pullTolerance    time.Duration
	drainRetry       time.Duration
	keepSucceeded    time.Duration
	keepFailed       time.Duration
	metricsAddress   string
	probeAddress     string
	webhookAddress   string
	leaderElection   bool
	adoptCRDs        bool
	defaultAccount   string
	insecureHTTP     bool
	review           bool
	leaseDuration    time.Duration
	logLevel         slog.Level
}

// parseOptions reads flags, then the environment for those that were not given.
func parseOptions(args []string, getenv func(string) string, out io.Writer) (options, error) {
	var o options
	level := "info"
	f := flag.NewFlagSet("fleetwright-reconciler", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; default: KUBECONFIG, then the pod's own account")
	f.StringVar(&o.namespace, "namespace", fleetv1.DefaultNamespace, "namespace of executions, snapshots and the lease")
	f.StringVar(&o.agentImage, "agent-image", "", "full reference of the agent's image (required)")
	f.StringVar(&o.hostRoot, "host-root", "/", "directory of the node that executions see as its root; another one is for tests")
	f.StringVar(&o.interruptAccount, "interrupt-service-account", "fleetwright-interrupt",
		"service account of interrupts, whose agent reads node and pods with a short-lived token directly before it acts; empty: no token, no look")
	f.StringVar(&o.executionAccount, "execution-service-account", "fleetwright-execution", "service account of executions, whose token is not mounted")
	f.StringVar(&o.defaultAccount, "default-service-account", "",
		"service account, by name in each Fleet's namespace, as which Fleets without spec.serviceAccountName apply; empty: the reconciler's own")
	f.IntVar(&o.attempts, "attempts", 3, "how often a phase of a package is tried in one turn of a node, at least 1")
	f.DurationVar(&o.stageTimeout, "stage-timeout", time.Hour, "bound of a stage whose package sets none; 0 is no bound")
	f.DurationVar(&o.retryBackoff, "retry-backoff", 10*time.Second, "wait before the second attempt; it doubles")
	f.DurationVar(&o.pullTolerance, "pull-tolerance", time.Minute, "how long an image may fail to be pulled before the node counts as failed")
	f.DurationVar(&o.drainRetry, "drain-retry", 5*time.Second, "how often a drain looks again")
	f.DurationVar(&o.keepSucceeded, "keep-succeeded", time.Hour, "how long a Job that succeeded stays, for its log, once its batch has ended")
	f.DurationVar(&o.keepFailed, "keep-failed", 24*time.Hour, "how long a Job that failed stays, for its log, once its batch has ended")
	f.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address of /metrics; 0 is off")
	f.StringVar(&o.probeAddress, "probe-address", ":8081", "address of /healthz and /readyz; 0 is off")
	f.StringVar(&o.webhookAddress, "webhook-address", "", "address for push notifications of forges; empty is off")
	f.BoolVar(&o.leaderElection, "leader-election", true, "act only while holding the lease "+fleetv1.LeaseName)
	f.BoolVar(&o.adoptCRDs, "adopt-crds", false, "act although CRDs are older than this version and drop fields that it knows")
	f.BoolVar(&o.insecureHTTP, "allow-insecure-http", false, "send credentials of Fleets over http without TLS; for tests on one machine")
	f.BoolVar(&o.review, "review", false, "plan pull requests and do nothing else: the reviewer, which needs to read only, and has the lease "+fleetv1.ReviewLeaseName)
	f.DurationVar(&o.leaseDuration, "lease-duration", 15*time.Second, "how long another process waits after a leader that died without a word, at least 3s")
	f.StringVar(&level, "log-level", level, "debug, info, warn or error")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if err := fromEnv(f, getenv); err != nil {
		return o, err
	}
	o.podName = getenv("POD_NAME")
	if err := o.logLevel.UnmarshalText([]byte(level)); err != nil {
		return o, fmt.Errorf("--log-level: %q is not a level (allowed: debug, info, warn, error)", level)
	}
	return o, o.check()
}

// fromEnv sets the flags that were not given on the command line.
func fromEnv(f *flag.FlagSet, getenv func(string) string) error {
	given := map[string]bool{}
	f.Visit(func(one *flag.Flag) { given[one.Name] = true })
	var err error
	f.VisitAll(func(one *flag.Flag) {
		name := envPrefix + strings.ToUpper(strings.ReplaceAll(one.Name, "-", "_"))
		if value := getenv(name); value != "" && !given[one.Name] && err == nil {
			if bad := f.Set(one.Name, value); bad != nil {
				err = fmt.Errorf("%s: %w", name, bad)
			}
		}
	})
	return err
}

func (o options) check() error {
	switch {
	case o.agentImage == "" && !o.review:
		return fmt.Errorf("--agent-image is required: the full reference of the agent's image")
	case o.namespace == "":
		return fmt.Errorf("--namespace must not be empty")
	case !strings.HasPrefix(o.hostRoot, "/"):
		return fmt.Errorf("--host-root: %q is not an absolute path", o.hostRoot)
	case o.attempts < 1 || o.attempts > maxAttempts:
		return fmt.Errorf("--attempts: %d is out of range (allowed: 1 to %d)", o.attempts, maxAttempts)
	case o.leaseDuration < minLease:
		return fmt.Errorf("--lease-duration: %s is too short (allowed: %s or more)", o.leaseDuration, minLease)
	case o.stageTimeout < 0:
		return fmt.Errorf("--stage-timeout: %s is negative (allowed: 0 or more)", o.stageTimeout)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"--retry-backoff", o.retryBackoff}, {"--pull-tolerance", o.pullTolerance}, {"--drain-retry", o.drainRetry},
		{"--keep-succeeded", o.keepSucceeded}, {"--keep-failed", o.keepFailed}} {
		if d.value <= 0 {
			return fmt.Errorf("%s: %s is too short (allowed: more than 0)", d.flag, d.value)
		}
	}
	return nil
}
