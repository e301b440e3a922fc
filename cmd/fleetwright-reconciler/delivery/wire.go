package delivery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/internal/forges"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/githubapp"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/reconciler"
)

// Options of the delivery half. The zero value is for production.
type Options struct {
	// AllowInsecureHTTP lets credentials of a Fleet go over http without TLS.
	AllowInsecureHTTP bool
	// AllowLocal lets a Fleet name a directory of this machine. For the demo only.
	AllowLocal bool
	// RetryBase is the wait before the first retry. Default reconciler.DefaultRetryBase.
	RetryBase time.Duration
	// DefaultServiceAccount is as whom the Fleets that name no account apply, by name in their namespaces; empty: as the reconciler.
	DefaultServiceAccount string
	// Reporter tunes the writers of commit statuses.
	Reporter forge.ReporterOptions
	// Webhooks takes the connections of forges; it is closed when the manager ends. Nil: nobody listens.
	Webhooks net.Listener
	// Registry takes the metrics. Required.
	Registry prometheus.Registerer
}

// Add puts the loop over Fleets, and the writers of commit statuses, into the manager.
func Add(m manager.Manager, o Options) error {
	validator, err := manifest.New()
	if err != nil {
		return fmt.Errorf("read schemas: %w", err)
	}
	credentials := secrets{m.GetAPIReader()}
	apps := &githubapp.Tokens{Now: time.Now, AllowInsecureHTTP: o.AllowInsecureHTTP}
	recorder := m.GetEventRecorder("fleetwright")
	statuses := newStatuses(recorder, o.Reporter)
	opener := forges.New(forges.Options{
		Secrets: credentials.read, AllowInsecureHTTP: o.AllowInsecureHTTP, AllowLocal: o.AllowLocal,
		Meter: reconciler.NewForgeMetrics(o.Registry, statuses.pending),
	})
	statuses.forges = opener
	if err := m.Add(statuses); err != nil {
		return fmt.Errorf("add commit status writers: %w", err)
	}
	loop := &reconciler.Delivery{
		Client: m.GetClient(), Reader: m.GetAPIReader(),
		Source:   source{secrets: credentials, apps: apps, insecure: o.AllowInsecureHTTP, local: o.AllowLocal},
		Renderer: renderer{validator: validator, reader: m.GetClient()},
		Applier:  newAccounts(m, o.DefaultServiceAccount),
		Shown:    shown{opener},
		Statuses: statuses, Events: recorder, Metrics: reconciler.NewDeliveryMetrics(o.Registry),
		Now: time.Now, Random: rand.Float64, RetryBase: o.RetryBase,
	}
	if err := loop.SetupWithManager(m); err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	return addWebhooks(m, credentials, o)
}

// Start runs the writers of commit statuses while this process leads.
func (s *statuses) Start(ctx context.Context) error { return s.run(ctx) }

// NeedLeaderElection: one process writes.
func (s *statuses) NeedLeaderElection() bool { return true }
