package main

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
	"github.com/fleetwright/fleetwright/pkg/adapter/host/hosttest"
	"github.com/fleetwright/fleetwright/pkg/agent"
)

// pod is what a container of an execution has: a termination log, streams, the environment and the host's root.
type pod struct {
	program
	log string
	out bytes.Buffer
}

func newPod(t *testing.T) *pod {
	p := &pod{log: filepath.Join(t.TempDir(), "termination-log")}
	require.NoError(t, os.WriteFile(p.log, []byte("old and longer than what comes"), 0o600))
	p.program = program{terminationLog: p.log, out: &p.out, err: &p.out}
	t.Setenv("SKYHOOK_RESOURCE_ID", "gpu-0f1e-5_tuning_1.2.3")
	t.Setenv("SKYHOOK_ROOT_DIR", "/var/lib/skyhook/gpu")
	t.Setenv("FLEETWRIGHT_ROUND", "5")
	t.Setenv("FLEETWRIGHT_MACHINE_ID", hosttest.MachineID)
	return p
}

func (p *pod) message(t *testing.T) string {
	data, err := os.ReadFile(p.log)
	require.NoError(t, err)
	return string(data)
}

func TestExitCodesAndTerminationMessages(t *testing.T) {
	p := newPod(t)
	root := host.Root(t.TempDir())
	require.NoError(t, root.WriteFile("/etc/machine-id", []byte(hosttest.MachineID+"\n"), 0o644))
	noop := base64.StdEncoding.EncodeToString([]byte(`{"type":"no_op"}`))

	require.Equal(t, 0, p.run(t.Context(), []string{"interrupt", string(root), "/copy", noop}))
	require.Regexp(t, `^\{"stage":"interrupt","outcome":"succeeded","exitCode":0,"seconds":[0-9.]+\}$`, p.message(t))

	t.Setenv(agent.NodeCheckVariable, `{"node":"n","uid":"u","namespace":"ns","label":"l"}`)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	none := base64.StdEncoding.EncodeToString([]byte(`{"type":"restart_all_services"}`))
	require.Equal(t, 3, p.run(t.Context(), []string{"interrupt", string(root), "/copy", none}))
	require.Contains(t, p.message(t), `"outcome":"unsafe"`)
	require.Contains(t, p.message(t), "not safe to interrupt: find the API server: KUBERNETES_SERVICE_HOST is not set")
	t.Setenv(agent.NodeCheckVariable, "{")
	require.Equal(t, 2, p.run(t.Context(), []string{"interrupt", string(root), "/copy", none}))
	t.Setenv(agent.NodeCheckVariable, "")

	require.Equal(t, 1, p.run(t.Context(), []string{"apply", string(root), "/copy"}))
	require.Contains(t, p.message(t), `"outcome":"failed"`)
	require.Contains(t, p.message(t), "read package: no config.json in /copy: no such file or directory")

	t.Setenv("FLEETWRIGHT_ROUND", "4")
	require.Equal(t, 1, p.run(t.Context(), []string{"apply", string(root), "/copy"}))
	require.Contains(t, p.message(t), `"outcome":"refused"`)

	require.Equal(t, 2, p.run(t.Context(), []string{"aply", string(root), "/copy"}))
	require.Contains(t, p.message(t), `unknown mode \"aply\"`)

	t.Setenv("SKYHOOK_RESOURCE_ID", "gpu")
	require.Equal(t, 2, p.run(t.Context(), []string{"apply", string(root), "/copy"}))
	require.Contains(t, p.out.String(), `fleetwright-agent: SKYHOOK_RESOURCE_ID "gpu" must be`)
}

func TestNoTerminationLogIsNoFailure(t *testing.T) {
	p := newPod(t)
	p.terminationLog = filepath.Join(t.TempDir(), "none")
	require.Equal(t, 2, p.run(t.Context(), nil))
	require.NoFileExists(t, p.terminationLog)
}
