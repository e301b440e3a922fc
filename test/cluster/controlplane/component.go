package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"
)

// component is one part of the control plane that runs until it is stopped.
type component struct {
	failed <-chan error // receives one error when the component ends although nobody stopped it
	stop   func()       // stops the component and waits for its end
}

// start runs a component on a context of its own: the caller's end must not stop it, because the order of stopping
// matters and is the order of the deferred stop calls.
func start(parent context.Context, name string, run func(context.Context) error) (*component, error) {
	if err := parent.Err(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	failed, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		err := run(ctx)
		if ctx.Err() == nil {
			failed <- fmt.Errorf("run %s: ended by itself: %w", name, orUnknown(err))
		}
	}()
	return &component{failed: failed, stop: func() { cancel(); <-done }}, nil
}

func orUnknown(err error) error {
	if err == nil {
		return fmt.Errorf("no reason given")
	}
	return err
}

// either gives what comes first from one of two channels.
func either(a, b <-chan error) <-chan error {
	out := make(chan error, 1)
	go func() {
		select {
		case err := <-a:
			out <- err
		case err := <-b:
			out <- err
		}
	}()
	return out
}

// waitReady returns when the API server's /readyz answers 200, or with the reason why it never will.
func waitReady(ctx context.Context, address string, c *credentials, failed <-chan error) error {
	client := &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.pool()}, DisableKeepAlives: true},
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if r, err := client.Get(address + "/readyz"); err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for kube-apiserver: %w", ctx.Err())
		case err := <-failed:
			return err
		case <-tick.C:
		}
	}
}
