package review

import (
	"bytes"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// TestReviewerProcess runs the program itself under the chart's account: it leads, builds in its own child, and is refused nothing.
func TestReviewerProcess(t *testing.T) {
	w := newWorld(t)
	w.kill()
	dir := t.TempDir()
	binary, kubeconfig := filepath.Join(dir, "fleetwright-reconciler"), filepath.Join(dir, "kubeconfig")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/fleetwright-reconciler").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, cluster.WriteKubeconfig(kubeconfig, w.account))
	var log bytes.Buffer
	process := exec.Command(binary, "--review", "--kubeconfig="+kubeconfig, "--namespace="+namespace, "--allow-insecure-http",
		"--metrics-address=127.0.0.1:0", "--probe-address=127.0.0.1:0")
	process.Stdout, process.Stderr = &log, &log
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		require.NoError(t, process.Process.Signal(syscall.SIGTERM))
		timer := time.AfterFunc(patience, func() { _ = process.Process.Kill() })
		defer timer.Stop()
		err := process.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
		require.NoError(t, err, "it stops by itself")
	})
	p := w.pull(true, gitserver.Change{Files: more()})
	f := w.fleet("us")
	require.Contains(t, w.until(f, p.Head, "failure"), waits)
	w.label(p, "fleetwright/plan")
	w.look(f)
	require.Equal(t, "3 nodes reboot", w.until(f, p.Head, "success"))
	w.untilComment(p, "3 reboot")

	require.NoError(t, cluster.Shared(t).Audit().Sync(t.Context()))
	requests, err := cluster.Shared(t).Audit().Events(cluster.Match{UserAgent: "fleetwright-reviewer"})
	require.NoError(t, err)
	require.NotEmpty(t, requests)
	for _, r := range requests {
		require.NotEqual(t, http.StatusForbidden, r.Code, "%s %s is refused by the chart's roles", r.Verb, r.URI)
		require.Contains(t, []string{"get", "list", "watch", "create", "update", "patch"}, r.Verb)
	}
}
