package scope_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/scope"
)

func TestAllowsImage(t *testing.T) {
	for _, c := range []struct {
		pattern, image string
		want           bool
	}{
		{"ghcr.io/nvidia/*", "ghcr.io/nvidia/tuning", true},
		{"ghcr.io/nvidia/*", "ghcr.io/nvidia/packages/tuning", false},
		{"ghcr.io/nvidia/**", "ghcr.io/nvidia/packages/tuning", true},
		{"ghcr.io/nvidia/*", "xghcr.io/nvidia/tuning", false},
		{"ghcr.io/nvidia/*", "ghcrXio/nvidia/tuning", false},
		{"ghcr.io/nvidia/tuning", "ghcr.io/nvidia/tuning-evil", false},
		{"*/tuning", "evil.example.com/tuning", true},
		{"ghcr.io/*", "ghcr.io/a\n.b", true}, // the schema refuses such an image; a line does not end a pattern early
	} {
		require.Equal(t, c.want, scope.AllowsImage(&fleetv1.Scope{Images: []string{"other", c.pattern}}, c.image), "%s %q", c.pattern, c.image)
	}
	require.True(t, scope.AllowsImage(nil, "x"))
	require.True(t, scope.AllowsImage(&fleetv1.Scope{}, "x"))
}

func TestViolations(t *testing.T) {
	set := desired.Set{Packages: []desired.Package{
		{Name: "a", Image: "ghcr.io/acme/a", Digest: "sha256:1"},
		{Name: "b", Image: "evil.example.com/b", AgentImage: "evil.example.com/agent:1", Interrupt: &nwv1.Interrupt{Type: nwv1.InterruptReboot},
			ConfigInterrupts: map[string]nwv1.Interrupt{"k": {Type: nwv1.InterruptReboot}, "j": {Type: nwv1.InterruptService}}},
	}}
	require.Empty(t, scope.Violations(nil, set))
	require.Empty(t, scope.Violations(&fleetv1.Scope{}, set))
	require.Equal(t, []string{
		`package "b": image "evil.example.com/b" is not allowed (allowed: ghcr.io/acme/*)`,
		`package "b": agentImageOverride "evil.example.com/agent:1" is not allowed (allowed: ghcr.io/acme/*)`,
		`package "b": interrupt "reboot" is not allowed (allowed: service)`,
		`package "b": interrupt "reboot" for the key k is not allowed (allowed: service)`,
		`package "b": containerSHA is missing, and digests are required`,
	}, scope.Violations(&fleetv1.Scope{
		Images: []string{"ghcr.io/acme/*"}, Interrupts: []nwv1.InterruptType{nwv1.InterruptService}, RequireDigest: true,
	}, set))
}
