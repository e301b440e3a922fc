package delivery

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/confined"
	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/internal/forges"
	"github.com/fleetwright/fleetwright/cmd/fleetwright/explain"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/githubapp"
	"github.com/fleetwright/fleetwright/pkg/adapter/sandbox"
	"github.com/fleetwright/fleetwright/reconciler"
)

// ReviewOptions of the reviewer. The zero value is for production, but for what is required.
type ReviewOptions struct {
	// Namespace of the reconciler whose cluster is planned for. Required.
	Namespace string
	// Tool is the version of this program, which comments name; empty: none.
	Tool string
	// AllowInsecureHTTP lets credentials of a Fleet go over http without TLS.
	AllowInsecureHTTP bool
	// Limits of the process that builds what a pull request says. Zero fields take confined's defaults.
	Limits sandbox.Limits
	// ClusterEvery and Refresh: see reconciler.Review.
	ClusterEvery, Refresh time.Duration
	// Reporter tunes the writers of commit statuses.
	Reporter forge.ReporterOptions
	// Registry takes the metrics. Required.
	Registry prometheus.Registerer
}

// AddReview puts the loop over pull requests, and the writers of their statuses, into the manager. The manager needs no right to write
// anything in the cluster but events and its lease.
func AddReview(m manager.Manager, o ReviewOptions) error {
	builds, err := confined.NewBuilder(o.Limits)
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	credentials := secrets{m.GetAPIReader()}
	recorder := m.GetEventRecorder("fleetwright")
	statuses := newStatuses(recorder, o.Reporter)
	statuses.forges = forges.New(forges.Options{
		Secrets: credentials.read, AllowInsecureHTTP: o.AllowInsecureHTTP, Meter: reconciler.NewForgeMetrics(o.Registry, statuses.pending),
	})
	if err := m.Add(statuses); err != nil {
		return fmt.Errorf("add commit status writers: %w", err)
	}
	apps := &githubapp.Tokens{Now: time.Now, AllowInsecureHTTP: o.AllowInsecureHTTP}
	loop := &reconciler.Review{
		Reader:  m.GetClient(),
		Forges:  pullForges{statuses},
		Source:  pullSource{source{secrets: credentials, apps: apps, insecure: o.AllowInsecureHTTP}},
		Builder: pullBuilder{builds: builds, known: renderer{reader: m.GetClient()}},
		Cluster: pullCluster{
			source: explain.NewSourceFrom(m.GetClient(), kube, o.Namespace, time.Now), tool: o.Tool, now: time.Now,
		},
		Events: recorder, Metrics: reconciler.NewReviewMetrics(o.Registry), Now: time.Now, ClusterEvery: o.ClusterEvery, Refresh: o.Refresh,
	}
	if err := loop.SetupWithManager(m); err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	return nil
}
