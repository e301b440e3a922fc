package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleetwright/fleetwright/test/loop"
)

// processes are the reconciler over one run: it is started again whenever it dies.
type processes struct {
	config *rest.Config
	writes *writes
	how    setting

	mu     sync.Mutex
	starts int
	gate   *gate // of the process that lives
	cancel context.CancelFunc
	ended  chan error
}

// run keeps a process alive until stop.
func (p *processes) run() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.ended = cancel, make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := p.live(ctx); err != nil {
				p.ended <- err
				return
			}
		}
		p.ended <- nil
	}()
}

// live is one process, from its start to its death.
func (p *processes) live(ctx context.Context) error {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	g := p.how.gate(p.writes, kill)
	one, err := startLoop(behind(p.config, g))
	if err != nil && (g.dead.Load() || p.how.reachable != nil) {
		return nil // it died at its start; the next one tries again
	}
	if err != nil {
		return fmt.Errorf("start the reconciler: %w", err)
	}
	p.mu.Lock()
	p.starts++
	p.gate = g
	p.mu.Unlock()
	err = one.Run(ctx)
	if g.dead.Load() || ctx.Err() != nil {
		return nil
	}
	return errors.Join(errors.New("the reconciler ended by itself"), err)
}

// startLoop wires a loop. Fewer passes than elsewhere mean fewer writes of statuses.
func startLoop(config *rest.Config) (*loop.Loop, error) {
	one, err := loop.New(config, namespace, logs())
	if err == nil {
		one.Rollout.Interval = 40 * time.Millisecond
	}
	return one, err
}

// behind puts a gate in front of every request of a configuration. The gate reads JSON.
func behind(config *rest.Config, g *gate) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return gateOver{g, next} })
	return config
}

// stop ends the process for good and says what went wrong.
func (p *processes) stop() error {
	p.cancel()
	return <-p.ended
}

func (p *processes) started() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// gateOver is a gate in front of one transport: a process has several clients.
type gateOver struct {
	*gate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g gateOver) RoundTrip(r *http.Request) (*http.Response, error) {
	return g.gate.through(g.next, r)
}
