package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// secretAge is how long a credential is used before its Secret is read again.
const secretAge = time.Minute

// writer writes to one repository.
type writer struct {
	reporter *forge.Reporter
	seen     *record
	data     map[string][]byte
	readAt   time.Time
}

// writer finds or makes the writer of a target, with the credential of now.
func (s *statuses) writer(ctx context.Context, to target) (*writer, error) {
	if w := s.fresh(to); w != nil {
		return w, nil
	}
	var data map[string][]byte
	var err error
	if to.key != "" {
		if data, err = s.secrets.read(ctx, to.secretNamespace, to.key); err != nil {
			return nil, withoutStatuses(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.writers[to]; w != nil && reflect.DeepEqual(w.data, data) {
		w.readAt = time.Now()
		return w, nil
	}
	provider, err := s.provider(to, data)
	if err != nil {
		return nil, withoutStatuses(err)
	}
	return s.install(to, provider, data), nil
}

// fresh is the writer whose credential was read not long ago.
func (s *statuses) fresh(to target) *writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.writers[to]; w != nil && time.Since(w.readAt) < secretAge {
		return w
	}
	return nil
}

func withoutStatuses(err error) error {
	return fmt.Errorf("no commit statuses: %w", errors.New(report.Redact(err.Error())))
}

// install puts a new provider in place; the caller holds the lock.
func (s *statuses) install(to target, provider forge.Provider, data map[string][]byte) *writer {
	w := s.writers[to]
	if w == nil {
		w = &writer{seen: &record{states: map[[2]string]report.CommitState{}}}
		s.writers[to] = w
	}
	w.data, w.readAt = data, time.Now()
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

func (s *statuses) provider(to target, data map[string][]byte) (forge.Provider, error) {
	switch to.provider {
	case fleetv1.ProviderGitNotes:
		return s.notes(to.repository, data)
	case fleetv1.ProviderGitea:
		server, owner, name, err := forge.ParseRepositoryURL(to.repository)
		if err != nil {
			return nil, err
		}
		server = cmp.Or(to.server, server)
		if err := s.checkServerURL(server); err != nil {
			return nil, err
		}
		return forge.NewGitea(forge.GiteaConfig{
			URL: server, Owner: owner, Repository: name,
			Token: strings.TrimSpace(string(data["token"])), CABundle: data["ca.crt"],
		})
	case fleetv1.ProviderGitHub, fleetv1.ProviderGitLab, fleetv1.ProviderBitbucket, fleetv1.ProviderAzureDevOps:
	}
	return nil, fmt.Errorf("provider %s is not supported (allowed: gitea, gitnotes)", to.provider)
}
