package delivery

import (
	"context"
	"fmt"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/internal/forges"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// writer writes to one repository.
type writer struct {
	reporter *forge.Reporter
	seen     *record
	provider forge.Provider
}

// writer finds or makes the writer of a target, with the credential of now.
func (s *statuses) writer(ctx context.Context, to forges.Target) (*writer, error) {
	provider, err := s.forges.OpenTarget(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("no commit statuses: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writers[to]
	if w == nil || w.provider != provider {
		w = s.install(to, provider)
	}
	return w, nil
}

// install puts a new provider in place; the caller holds the lock.
func (s *statuses) install(to forges.Target, provider forge.Provider) *writer {
	w := s.writers[to]
	if w == nil {
		w = &writer{seen: &record{states: map[[2]string]report.CommitState{}}}
		s.writers[to] = w
	}
	w.provider = provider
	watched := seen{provider, w.seen}
	if w.reporter != nil {
		w.reporter.SetProvider(watched)
		return w
	}
	options := s.options
	options.Observe = func(status forge.Status, err error) { s.observed(to, status, err) }
	w.reporter = forge.NewReporter(watched, options)
	s.waiting = append(s.waiting, w)
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is waiting already
	}
	return w
}
