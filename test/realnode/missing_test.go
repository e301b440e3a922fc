//go:build linux

package realnode

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The sentence names every program that is missing, and each Debian package once.
func TestMissingSaysHowToInstall(t *testing.T) {
	if os.Geteuid() != 0 {
		require.Contains(t, Missing(), "need root")
		return
	}
	t.Setenv("PATH", t.TempDir())
	require.Equal(t, "real nodes need containerd, containerd-shim-runc-v2, runc, ip, busybox, nsenter, mount, sysctl: "+
		"apt-get install --no-install-recommends containerd runc iproute2 busybox-static util-linux mount procps", Missing())
}

func TestBootIDs(t *testing.T) {
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, newUUID())
	require.NotEqual(t, newUUID(), newUUID())
}
