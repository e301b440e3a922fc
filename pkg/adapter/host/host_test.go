package host_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
	"github.com/fleetwright/fleetwright/pkg/adapter/host/hosttest"
)

func write(t *testing.T, root, name, text string) {
	p := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
}

func TestPathFollowsLinksInsideTheRoot(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "run/data", "x")
	for link, target := range map[string]string{
		"abs": "/run", "rel": "run/../run", "up": "../../../../run", "loop": "loop", "chain": "abs", "dangling": "/no/where",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	root := host.Root(dir)
	for given, want := range map[string]string{
		"/abs/data": "run/data", "rel/data": "run/data", "/up/data": "run/data", "/chain/data": "run/data",
		"/../../etc/x": "etc/x", "/dangling/x": "no/where/x", "/": "",
	} {
		got, err := root.Path(given)
		require.NoError(t, err, given)
		require.Equal(t, filepath.Join(dir, want), got, given)
	}
	_, err := root.Path("/loop/x")
	require.EqualError(t, err, "follow /loop/x: more than 40 symbolic links")
}

func TestWriteFileReplacesAsAWhole(t *testing.T) {
	dir := t.TempDir()
	root := host.Root(dir)
	require.NoError(t, root.WriteFile("/etc/a/b.conf", []byte("one"), 0o600))
	before, err := os.Open(filepath.Join(dir, "etc/a/b.conf"))
	require.NoError(t, err)
	defer before.Close()
	require.NoError(t, root.WriteFile("/etc/a/b.conf", []byte("three"), 0o640))
	old := make([]byte, 10)
	n, err := before.Read(old)
	require.NoError(t, err)
	require.Equal(t, "one", string(old[:n]), "an open reader keeps the old file")
	names, err := root.Names("/etc/a")
	require.NoError(t, err)
	require.Equal(t, []string{"b.conf"}, names)
}

func TestOverlay(t *testing.T) {
	dir := t.TempDir()
	root := host.Root(dir)
	write(t, dir, "pkg/root_dir/etc/sysctl.d/90.conf", "vm.x=1\n")
	write(t, dir, "pkg/root_dir/var/run/flag", "1")
	require.NoError(t, os.Symlink("90.conf", filepath.Join(dir, "pkg/root_dir/etc/sysctl.d/link")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "var"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "run"), 0o755))
	require.NoError(t, os.Symlink("/run", filepath.Join(dir, "var/run"))) // as on Debian: must not lead out
	require.NoError(t, os.Mkdir(filepath.Join(dir, "etc"), 0o700))

	changed, err := root.Overlay("/pkg/root_dir", "/")
	require.NoError(t, err)
	require.Equal(t, []string{"/etc/sysctl.d", "/etc/sysctl.d/90.conf", "/etc/sysctl.d/link", "/var/run/flag"}, changed)
	require.FileExists(t, filepath.Join(dir, "run/flag"))
	data, err := root.ReadFile("/etc/sysctl.d/link")
	require.NoError(t, err)
	require.Equal(t, "vm.x=1\n", string(data))
	info, err := os.Stat(filepath.Join(dir, "etc"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "existing directories keep their permissions")

	changed, err = root.Overlay("/pkg/root_dir", "/")
	require.NoError(t, err)
	require.Empty(t, changed, "equal files are left alone")

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "etc/sysctl.d")))
	write(t, dir, "etc/sysctl.d", "a file")
	_, err = root.Overlay("/pkg/root_dir", "/")
	require.EqualError(t, err, "copy /etc/sysctl.d: the host has a file there, not a directory")
}

func TestMachineID(t *testing.T) {
	dir := t.TempDir()
	_, err := host.Root(dir).MachineID()
	require.EqualError(t, err, "read machine ID: the host has none in /etc/machine-id or /var/lib/dbus/machine-id")
	write(t, dir, "etc/machine-id", "\n")
	write(t, dir, "var/lib/dbus/machine-id", "abc\n")
	id, err := host.Root(dir).MachineID()
	require.NoError(t, err)
	require.Equal(t, "abc", id)
}

func TestLocks(t *testing.T) {
	root := host.Root(t.TempDir())
	ended, cancel := context.WithCancel(t.Context())
	cancel() // tries once
	one, err := root.Lock(t.Context(), "/run/l", false)
	require.NoError(t, err)
	two, err := root.Lock(ended, "/run/l", false)
	require.NoError(t, err, "shared locks go together")
	_, err = root.Lock(ended, "/run/l", true)
	require.ErrorIs(t, err, host.ErrLocked)
	require.EqualError(t, err, "lock /run/l: another execution on this host holds it")
	require.NoError(t, one())
	require.NoError(t, two())
	three, err := root.Lock(ended, "/run/l", true)
	require.NoError(t, err)
	require.NoError(t, three())
}

func runScript(t *testing.T, ctx context.Context, text string) (out string, code int, err error) {
	root := hosttest.Root(t)
	require.NoError(t, root.WriteFile("/opt/step.sh", []byte("#!/bin/sh\n"+text), 0o755))
	var stdout bytes.Buffer
	code, err = hosttest.Runner(t, root).Run(ctx, host.Command{
		Path: "/opt/step.sh", Args: []string{"a b"}, Dir: "/opt", Env: []string{"X=1", hosttest.Environ(root)}, Stdout: &stdout,
	})
	return stdout.String(), code, err
}

func TestExecRunsInTheHostsRoot(t *testing.T) {
	out, code, err := runScript(t, t.Context(), `echo "$1 $X ${PWD#$HOST}"; cat "$HOST/etc/machine-id"; exit 7`)
	require.NoError(t, err)
	require.Equal(t, 7, code)
	require.Equal(t, "a b 1 /opt\n"+hosttest.MachineID+"\n", out)
}

func TestExecReportsSignals(t *testing.T) {
	_, code, err := runScript(t, t.Context(), "kill -TERM $$\nsleep 60")
	require.NoError(t, err)
	require.Equal(t, 143, code)
}

func TestExecEndsTheWholeGroup(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err := runScript(t, ctx, "sleep 600 &\nsleep 600")
	require.ErrorIs(t, err, host.ErrStopped)
	require.EqualError(t, err, "run /opt/step.sh: stopped")
}

func TestExecSaysWhyNothingRan(t *testing.T) {
	root := hosttest.Root(t)
	run := host.Exec{Root: root}
	_, err := run.Run(t.Context(), host.Command{Path: "nothing"})
	require.EqualError(t, err, "run nothing: the host has no such program (looked in "+host.SearchPath+")")
	_, err = run.Run(t.Context(), host.Command{Path: "/no/thing"})
	require.ErrorIs(t, err, os.ErrNotExist)
}
