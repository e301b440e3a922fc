package delivery

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	eventsv1 "k8s.io/api/events/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// in is the same world in a subtest.
func (w *world) in(t *testing.T) *world {
	sub := *w
	sub.t = t
	return &sub
}

func authorized(signers ...ssh.Signer) []ssh.PublicKey {
	var out []ssh.PublicKey
	for _, s := range signers {
		out = append(out, s.PublicKey())
	}
	return out
}

func knownHosts(s *gitserver.Server, key ssh.PublicKey) string {
	return knownhosts.Line([]string{knownhosts.Normalize(s.SSHAddress())}, key) + "\n"
}

// everything that people can read about a Fleet, as one text.
func everything(w *world, f *fleetv1.Fleet) string {
	w.t.Helper()
	var list eventsv1.EventList
	require.NoError(w.t, w.admin.List(w.t.Context(), &list))
	text, err := json.Marshal(map[string]any{"fleet": f, "events": list.Items})
	require.NoError(w.t, err)
	return string(text)
}

func speaks(notes []note, context string) bool {
	return slices.ContainsFunc(notes, func(n note) bool { return n.Context == context })
}
