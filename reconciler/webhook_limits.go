package reconciler

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

const (
	// hookMemoryTime is how long a delivery is remembered at least, and half of how long at most; hookSilence, the same for what
	// was logged: who corrects a webhook and gets it wrong again wants to read so.
	hookMemoryTime, hookSilence = 5 * time.Minute, 10 * time.Second
	// hookMemorySize is how many keys there are in half of the memory.
	hookMemorySize = 4096
)

// hookMemory remembers keys for a while. It is bounded: when it is full, the older half is forgotten. The zero value
// is empty.
type hookMemory struct {
	mu       sync.Mutex
	now, old map[string]bool
	since    time.Time
}

// add remembers a key for at least keep, and at most twice that; false: it was known.
func (m *hookMemory) add(key string, now time.Time, keep time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if age := now.Sub(m.since); m.now == nil || age >= keep || len(m.now) >= hookMemorySize {
		m.old, m.now, m.since = m.now, map[string]bool{}, now
		if age >= 2*keep {
			m.old = nil
		}
	}
	if m.now[key] || m.old[key] {
		return false
	}
	m.now[key] = true
	return true
}

const (
	// peerRate is how many requests of one address are answered in a second for long, peerBurst how many at once. Behind an
	// ingress all forges together are one address.
	peerRate, peerBurst = 20, 100
	// maxPeers is how many addresses are told apart.
	maxPeers = 4096
)

// peerLimits slows down addresses that ask too often. The zero value is ready.
type peerLimits struct {
	mu    sync.Mutex
	peers map[netip.Prefix]*peerBucket
}

// peerBucket holds what an address may still ask for.
type peerBucket struct {
	left float64
	at   time.Time
}

func (b *peerBucket) fill(now time.Time) {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.left, b.at = min(peerBurst, b.left+passed*peerRate), now
	}
}

// allow takes one request of an address.
func (l *peerLimits) allow(remote string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	peer := peerOf(remote)
	b := l.peers[peer]
	if b == nil {
		l.makeRoom(now)
		b = &peerBucket{left: peerBurst, at: now}
		l.peers[peer] = b
	}
	b.fill(now)
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// makeRoom forgets those that have been quiet, or everybody: so many addresses are bounded by the number of connections.
func (l *peerLimits) makeRoom(now time.Time) {
	if l.peers == nil {
		l.peers = map[netip.Prefix]*peerBucket{}
	}
	if len(l.peers) < maxPeers {
		return
	}
	for peer, b := range l.peers {
		if b.fill(now); b.left == peerBurst {
			delete(l.peers, peer)
		}
	}
	if len(l.peers) >= maxPeers {
		clear(l.peers)
	}
}

// peerOf is the address of a connection; of IPv6 the network, all of which usually belongs to one machine.
func peerOf(remote string) netip.Prefix {
	parsed, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	address, bits := parsed.Addr().Unmap().WithZone(""), 64
	if address.Is4() {
		bits = 32
	}
	prefix, _ := address.Prefix(bits) // both are possible lengths
	return prefix
}

// hookSecretTime is how long a Secret, or that there is none, is remembered: a flood of forged requests must not become one of
// reads, and a corrected Secret must count at once.
const hookSecretTime = 2 * time.Second

// RememberedSecrets reads each Secret at most once in two seconds.
type RememberedSecrets struct {
	// Secrets reads them. Required.
	Secrets HookSecrets
	// Now is the clock. Required.
	Now func() time.Time

	mu    sync.Mutex
	known map[types.NamespacedName]rememberedSecret
}

type rememberedSecret struct {
	secret []byte
	err    error
	until  time.Time
}

// HookSecret implements HookSecrets.
func (r *RememberedSecrets) HookSecret(ctx context.Context, fleet *fleetv1.Fleet) ([]byte, error) {
	key := types.NamespacedName{Namespace: fleet.Namespace, Name: fleet.Spec.Webhook.SecretRef.Name}
	r.mu.Lock()
	had, ok := r.known[key]
	r.mu.Unlock()
	if ok && r.Now().Before(had.until) {
		return had.secret, had.err
	}
	secret, err := r.Secrets.HookSecret(ctx, fleet)
	if ctx.Err() == nil {
		r.remember(key, rememberedSecret{secret, err, r.Now().Add(hookSecretTime)})
	}
	return secret, err
}

// remember forgets what is no longer valid: there are as many as Fleets were asked for in two seconds.
func (r *RememberedSecrets) remember(key types.NamespacedName, s rememberedSecret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[types.NamespacedName]rememberedSecret{}
	}
	for other, had := range r.known {
		if !r.Now().Before(had.until) {
			delete(r.known, other)
		}
	}
	r.known[key] = s
}
