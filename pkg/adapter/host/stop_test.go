package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
	"github.com/fleetwright/fleetwright/pkg/adapter/host/hosttest"
)

// stopped runs a script, ends the context once the script has written the file /tmp/began, and returns what Run did.
func stopped(t *testing.T, root host.Root, grace time.Duration, text string) (code int, err error) {
	require.NoError(t, root.WriteFile("/opt/step.sh", []byte("#!/bin/sh\n"+text), 0o755))
	var run host.Runner
	switch r := hosttest.Runner(t, root).(type) {
	case host.Exec:
		r.Grace, r.Kill = grace, time.Second
		run = r
	case hosttest.Unconfined:
		r.Grace, r.Kill = grace, time.Second
		run = r
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		code, err = run.Run(ctx, host.Command{Path: "/opt/step.sh", Dir: "/", Env: []string{hosttest.Environ(root)}})
	}()
	require.Eventually(t, func() bool { return root.Exists("/tmp/began") }, time.Minute, 10*time.Millisecond)
	cancel()
	<-ended
	return code, err
}

// pid reads a process ID that a script wrote.
func pid(t *testing.T, root host.Root, file string) int {
	data, err := root.ReadFile(file)
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	require.NoError(t, err)
	return n
}

// runs says whether a process is there and no zombie.
func runs(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestExecLetsAStepEndWithinItsGrace(t *testing.T) {
	root := hosttest.Root(t)
	code, err := stopped(t, root, time.Minute, `touch "$HOST/tmp/began"; sleep 1; touch "$HOST/tmp/done"; exit 5`)
	require.NoError(t, err)
	require.Equal(t, 5, code)
	require.True(t, root.Exists("/tmp/done"))
}

func TestExecEndsChildrenOfChildrenThatIgnoreSIGTERM(t *testing.T) {
	root := hosttest.Root(t)
	const stubborn = `trap '' TERM
if [ "$1" = 2 ]; then echo $$ >"$HOST/tmp/pid"; touch "$HOST/tmp/began"; while :; do sleep 1; done; fi
"$0" $(($1 + 1)) &
wait; sleep 600`
	_, err := stopped(t, root, 0, stubborn)
	require.ErrorIs(t, err, host.ErrStopped)
	require.Eventually(t, func() bool { return !runs(pid(t, root, "/tmp/pid")) }, 10*time.Second, 10*time.Millisecond)
}

// What a step that ended in its grace left in its group is ended too, so that nothing works on while the next attempt does.
func TestExecEndsWhatAStoppedStepLeft(t *testing.T) {
	root := hosttest.Root(t)
	_, err := stopped(t, root, time.Minute, `sleep 600 >/dev/null 2>&1 & echo $! >"$HOST/tmp/pid"; touch "$HOST/tmp/began"; sleep 1`)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !runs(pid(t, root, "/tmp/pid")) }, 10*time.Second, 10*time.Millisecond)
}

// A daemon with a session of its own is the container runtime's to end, and holds up nobody, though it keeps the output open.
func TestExecIsNotHeldUpByADaemon(t *testing.T) {
	root := hosttest.Root(t)
	_, err := stopped(t, root, 0, `setsid sleep 600 & echo $! >"$HOST/tmp/pid"; sleep 1; touch "$HOST/tmp/began"; sleep 600`)
	require.ErrorIs(t, err, host.ErrStopped)
	daemon := pid(t, root, "/tmp/pid")
	require.True(t, runs(daemon))
	require.NoError(t, syscall.Kill(daemon, syscall.SIGKILL))
}

func TestWriteFileKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	write(t, dir, "etc/chrony.keys", "old")
	require.NoError(t, os.Chown(filepath.Join(dir, "etc/chrony.keys"), 1234, 4321))
	require.NoError(t, host.Root(dir).WriteFile("/etc/chrony.keys", []byte("new"), 0o640))
	info, err := os.Stat(filepath.Join(dir, "etc/chrony.keys"))
	require.NoError(t, err)
	st := info.Sys().(*syscall.Stat_t)
	require.Equal(t, "1234 4321 -rw-r-----", fmt.Sprint(st.Uid, " ", st.Gid, " ", info.Mode()))
}

func TestWriteFileRemovesWhatAKilledExecutionLeft(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{".fleetwright-1": 2 * time.Hour, ".fleetwright-2": time.Minute, "a.conf": 2 * time.Hour} {
		write(t, dir, "etc/[x]/"+name, "half")
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(filepath.Join(dir, "etc/[x]", name), at, at))
	}
	root := host.Root(dir)
	require.NoError(t, root.WriteFile("/etc/[x]/b.conf", []byte("whole"), 0o644))
	names, err := root.Names("/etc/[x]")
	require.NoError(t, err)
	require.Equal(t, []string{".fleetwright-2", "a.conf", "b.conf"}, names, "another execution may be writing the younger one")
}
