package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fleetwright/fleetwright/test/lab"
)

const (
	nodewrightsFile = "bases/nodewrights/kustomization.yaml"
	kernelFile      = "bases/packages/kernel-args.yaml"
)

// chapter is one commit and how it ends.
type chapter struct {
	title, message string
	change         func(map[string]string) (map[string]string, error)
	// stops is where it fails; empty: it passes every region.
	stops string
}

var chapters = []chapter{
	{title: "1. A good commit passes region by region", message: "Network buffers and IOMMU pass-through for the GPU nodes", change: withoutServices},
	{title: "2. A commit that fails on the canary stops there", message: "The newest kernel arguments", change: version("1.1.6", lab.BrokenVersion), stops: "canary"},
	{title: "3. The fix goes through", message: "Kernel arguments that work", change: version(lab.BrokenVersion, "1.2.1")},
}

// withoutServices leaves out what would only take time.
func withoutServices(files map[string]string) (map[string]string, error) {
	return lab.Edit(files, nodewrightsFile, "  - gpu-services.yaml\n", "")
}

func version(old, now string) func(map[string]string) (map[string]string, error) {
	return func(files map[string]string) (map[string]string, error) {
		return lab.Edit(files, kernelFile, "  version: "+old, "  version: "+now)
	}
}

// tell plays the chapters. The Fleets are made after the first push: a region that starts finds something to wait for.
func (w *world) tell(ctx context.Context) error {
	good := ""
	for i, c := range chapters {
		fmt.Printf("\n━━ %s\n", c.title)
		commit, err := w.push(ctx, c)
		if err != nil {
			return err
		}
		if i == 0 {
			if err := w.createFleets(ctx); err != nil {
				return err
			}
		}
		if err := w.follow(ctx, c, commit); err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
		if c.stops == "" {
			good = commit
			continue
		}
		if err := w.stillAt(ctx, good, c.stops); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) push(ctx context.Context, c chapter) (string, error) {
	files, err := w.clone.Files()
	if err != nil {
		return "", err
	}
	changed, err := c.change(files)
	if err != nil {
		return "", err
	}
	commit, err := w.clone.Push(ctx, c.message, changed)
	if err == nil {
		w.say("git push: %s %q", commit[:12], c.message)
	}
	return commit, err
}

func (w *world) createFleets(ctx context.Context) error {
	for _, r := range w.regions {
		if err := r.Client.Create(ctx, r.fleet(w.git.URL("fleet"))); err != nil {
			return fmt.Errorf("region %s: create fleet: %w", r.name, err)
		}
		if waits := r.after; len(waits) > 0 {
			w.say("Fleet %s waits for %s, each for %s", r.name, strings.Join(waits, " and "), soak)
		}
	}
	return nil
}

// follow prints what the commit shows until it has come to its end everywhere, and checks that nobody goes out of order.
func (w *world) follow(ctx context.Context, c chapter, commit string) error {
	shown := map[string]string{}
	for {
		states := map[string]lab.Status{}
		for _, s := range w.clone.Statuses(ctx, commit) {
			states[s.Context] = s
		}
		for _, r := range w.regions {
			s := states[contextOf(r.name)]
			if text := s.State + ": " + s.Description; s.State != "" && text != shown[r.name] {
				shown[r.name] = text
				w.say("%-22s %s", contextOf(r.name), text)
			}
			if err := w.inOrder(ctx, r, commit, states); err != nil {
				return err
			}
		}
		if ended, err := w.ended(c, states); ended || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("commit %s came to no end: %v", commit, shown)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// inOrder asks the cluster itself: nothing of the commit may be in it before the regions that it waits for are done. The statuses were
// read before the cluster is.
func (w *world) inOrder(ctx context.Context, r *region, commit string, states map[string]lab.Status) error {
	applied, err := r.applied(ctx)
	if err != nil || applied != commit {
		return err
	}
	now := map[string]lab.Status{}
	for _, s := range w.clone.Statuses(ctx, commit) {
		now[s.Context] = s
	}
	for _, other := range r.after {
		if state := now[contextOf(other)].State; state != "success" {
			return fmt.Errorf("%s has applied %s although %s is %q (a moment before: %q)", r.name, commit[:12], other, state, states[contextOf(other)].State)
		}
	}
	return nil
}

// ended says that the commit is a success everywhere, or that it stopped where it should and the others say so.
func (w *world) ended(c chapter, states map[string]lab.Status) (bool, error) {
	for _, r := range w.regions {
		s := states[contextOf(r.name)]
		switch {
		case c.stops == "" && (s.State == "failure" || s.State == "error"):
			return false, fmt.Errorf("%s is %s: %s", r.name, s.State, s.Description)
		case c.stops == "" && s.State != "success":
			return false, nil
		case c.stops != "" && r.name != c.stops && s.State == "success":
			return false, fmt.Errorf("%s is success, and should wait for %s", r.name, c.stops)
		case c.stops == r.name && s.State != "failure":
			return false, nil
		case c.stops != "" && c.stops != r.name && s.Description != "held back: "+contextOf(c.stops)+" is failure":
			return false, nil
		}
	}
	return true, nil
}

// stillAt says that every region but the one that failed runs what it ran.
func (w *world) stillAt(ctx context.Context, commit, failed string) error {
	for _, r := range w.regions {
		applied, err := r.applied(ctx)
		if err != nil {
			return err
		}
		if r.name != failed && applied != commit {
			return fmt.Errorf("%s has %s and should still have %s", r.name, applied, commit)
		}
	}
	w.say("us-east-1 and eu-west-1 still run %s: nothing was asked of them", commit[:12])
	return nil
}
