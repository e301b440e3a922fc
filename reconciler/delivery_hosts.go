package reconciler

import (
	"net/url"
	"strings"
	"sync"
	"time"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

const (
	// fleetsPerHost is how many Fleets speak with one git host at once. It is well below parallelFleets, so that a host that
	// does not answer cannot take all the workers.
	fleetsPerHost = 3
	// hostPause is about how long a Fleet waits before it asks for its turn again.
	hostPause = time.Second
)

// hostGate counts the Fleets that are speaking with each host.
type hostGate struct {
	mu    sync.Mutex
	hosts map[string]int
}

// enterHost lets the pass speak with its host until leave is called, or tells it to come back. It never waits: a worker that
// waited would be missing elsewhere.
func (r *Delivery) enterHost(fleet *fleetv1.Fleet) (leave func(), full bool) {
	host := hostOf(fleet.Spec.Source.URL)
	if !r.hosts.enter(host) {
		return func() {}, true
	}
	return sync.OnceFunc(func() { r.hosts.leave(host) }), false
}

func (g *hostGate) enter(host string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts[host] >= fleetsPerHost {
		return false
	}
	if g.hosts == nil {
		g.hosts = map[string]int{}
	}
	g.hosts[host]++
	return true
}

func (g *hostGate) leave(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts[host]--; g.hosts[host] == 0 {
		delete(g.hosts, host)
	}
}

// hostOf is the server of a URL, without user and password; empty for a local path and for what is no URL.
func hostOf(source string) string {
	if strings.Contains(source, "://") {
		u, err := url.Parse(source)
		if err != nil {
			return ""
		}
		return strings.ToLower(u.Host)
	}
	if before, _, found := strings.Cut(source, ":"); found && !strings.Contains(before, "/") { // user@host:path
		return strings.ToLower(before[strings.LastIndex(before, "@")+1:])
	}
	return ""
}
