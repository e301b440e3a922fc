package footprint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/test/images/static"
)

// Bounds of the agent.
const (
	maxSize   = 12 << 20 // bytes
	maxStart  = 20 * time.Millisecond
	maxMemory = 16 << 20 // bytes, resident
)

// config has a step that waits, of the kind that needs no root, and no step at all for the mode config.
const config = `{"schema_version":"v1","package_name":"idle","package_version":"1.0.0","expected_config_files":[],"modes":{
"apply":[{"name":"wait","path":"wait.sh","arguments":[],"returncodes":[0],"on_host":false,"idempotence":true,"upgrade_step":false,"env":{}}],
"apply-check":[{"name":"wait","path":"wait.sh","arguments":[],"returncodes":[0],"on_host":false,"idempotence":true,"upgrade_step":false,"env":{}}]}}`

const copyDir = "/var/lib/skyhook/bench/idle-1.0.0-x-1"

// BenchmarkAgent is one run: ns/op is the mean of the starts, and the three ratios are the size, the fastest start, and the memory
// at rest. A start counts by the clock, or by the processor time that it took where that is less: on a busy machine the clock
// measures how long a start waits for its turn.
func BenchmarkAgent(b *testing.B) {
	binary, root := installed(b)
	fastest := time.Hour
	for b.Loop() {
		begin := time.Now()
		cmd := start(binary, "config", root)
		out, err := cmd.CombinedOutput()
		fastest = min(fastest, time.Since(begin))
		require.NoError(b, err, "%s", out)
		if worked := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); worked > 0 {
			fastest = min(fastest, worked)
		}
	}
	b.StopTimer()
	info, err := os.Stat(binary)
	require.NoError(b, err)
	within(b, "size/12MiB", float64(info.Size())/maxSize)
	within(b, "start/20ms", float64(fastest)/float64(maxStart))
	within(b, "idle/16MiB", float64(idleMemory(b, binary, root))/maxMemory)
}

// within prints a part of a bound, and fails above it.
func within(b *testing.B, what string, ratio float64) {
	b.ReportMetric(ratio, what)
	b.Logf("%s: %.2f", what, ratio)
	if ratio > 1 {
		b.Errorf("%s: %.2f times the bound", what, ratio)
	}
}

// installed is the binary as its image holds it, and a host with a package.
func installed(b *testing.B) (binary, root string) {
	data, err := static.Compile("../..", "agent", runtime.GOARCH)
	require.NoError(b, err)
	dir := b.TempDir()
	binary, root = filepath.Join(dir, "fleetwright-agent"), filepath.Join(dir, "host")
	require.NoError(b, os.WriteFile(binary, data, 0o755))
	require.NoError(b, os.MkdirAll(filepath.Join(root, copyDir, "skyhook_dir"), 0o755))
	require.NoError(b, os.WriteFile(filepath.Join(root, copyDir, "config.json"), []byte(config), 0o644))
	script := fmt.Sprintf("#!/bin/sh\ntouch '%s/began'\nexec sleep 60\n", root)
	require.NoError(b, os.WriteFile(filepath.Join(root, copyDir, "skyhook_dir/wait.sh"), []byte(script), 0o755))
	return binary, root
}

func start(binary, mode, root string) *exec.Cmd {
	cmd := exec.Command(binary, mode, root, copyDir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SKYHOOK_RESOURCE_ID=bench-x-1_idle_1.0.0", "SKYHOOK_ROOT_DIR=/var/lib/skyhook/bench", "FLEETWRIGHT_GRACE=1"}
	return cmd
}

var resident = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// idleMemory is what the agent holds while a step runs, in bytes.
func idleMemory(b *testing.B, binary, root string) int {
	cmd := start(binary, "apply", root)
	require.NoError(b, cmd.Start())
	require.Eventually(b, func() bool { _, err := os.Stat(filepath.Join(root, "began")); return err == nil }, time.Minute, 5*time.Millisecond)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	require.NoError(b, err)
	require.NoError(b, cmd.Process.Signal(os.Interrupt))
	require.Error(b, cmd.Wait(), "it was told to stop")
	found := resident.FindSubmatch(status)
	require.NotNil(b, found, "%s", status)
	kib, err := strconv.Atoi(string(found[1]))
	require.NoError(b, err)
	return kib << 10
}
