package agent

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
)

const (
	uidA = "0f1e2d3c-0000-4000-8000-000000000001"
	uidB = "0f1e2d3c-0000-4000-8000-000000000002"
)

// cluttered is a host on which round 9 of NodeWright A runs the package tuning, and copies of other rounds lie around. The value
// is when a copy was used last, in hours ago.
func cluttered(t *testing.T, ages map[string]int) *machine {
	m := newMachine(t)
	m.round = 9
	m.install(map[Mode][]Step{ModeApply: {step("ok")}, ModeApply.Check(): {step("ok")}, ModeUninstall: {step("ok")},
		ModeUninstall.Check(): {step("ok")}}, map[string]string{"ok.sh": ""})
	require.NoError(t, m.root.Rename(copyDir, ownCopy))
	for name, hours := range ages {
		m.age(stateDir+"/"+name, hours)
	}
	m.env = []string{"SKYHOOK_RESOURCE_ID=gpu-" + uidA + "-9_tuning_1.2.3"}
	return m
}

const ownCopy = stateDir + "/tuning-1.2.3-" + uidA + "-9"

// age makes a directory with a file in it that was used so many hours ago.
func (m *machine) age(dir string, hours int) {
	m.write(dir+"/config.json", "{}")
	require.NoError(m.t, m.root.Touch(dir, m.clock.Add(-time.Duration(hours)*time.Hour)))
}

func (m *machine) runOwn(mode Mode) Result {
	return m.agent().Run(m.t.Context(), Invocation{Mode: mode, Root: string(m.root), CopyDir: ownCopy})
}

// left names the copy directories, without NodeWright A's UID.
func (m *machine) left(prefix string) string {
	names, err := m.root.Names(stateDir)
	require.NoError(m.t, err)
	var out []string
	for _, n := range names {
		if strings.HasPrefix(n, prefix) {
			out = append(out, strings.ReplaceAll(strings.ReplaceAll(n, uidA, "A"), uidB, "B"))
		}
	}
	return strings.Join(out, " ")
}

func TestOldCopiesGo(t *testing.T) {
	a := func(pkgVersion string, round int) string { return fmt.Sprintf("%s-%s-%d", pkgVersion, uidA, round) }
	for name, c := range map[string]struct {
		ages map[string]int
		want string
	}{
		"the newest three stay": {
			map[string]int{a("tuning-1.2.3", 8): 1, a("tuning-1.2.2", 7): 2, a("tuning-1.2.2", 6): 3, a("tuning-v1", 5): 4},
			"tuning-1.2.2-A-7 tuning-1.2.3-A-8 tuning-1.2.3-A-9"},
		"by use, not by round: a round that came back": {
			map[string]int{a("tuning-1.2.3", 8): 5, a("tuning-1.2.2", 7): 2, a("tuning-1.2.2", 6): 3},
			"tuning-1.2.2-A-6 tuning-1.2.2-A-7 tuning-1.2.3-A-9"},
		"a later round's is being made": {
			map[string]int{a("tuning-1.2.3", 10): 9, a("tuning-1.2.3", 11): 9, a("tuning-1.2.3", 12): 9},
			"tuning-1.2.3-A-10 tuning-1.2.3-A-11 tuning-1.2.3-A-12 tuning-1.2.3-A-9"},
		"another NodeWright of this name, a day ago": {
			map[string]int{"tuning-1.2.3-" + uidB + "-1": 30, "tuning-1.2.3-" + uidB + "-2": 29, "tuning-1.2.3-" + uidB + "-3": 28,
				"tuning-1.2.3-" + uidB + "-40": 27},
			"tuning-1.2.3-A-9 tuning-1.2.3-B-3 tuning-1.2.3-B-40"},
		"another NodeWright of this name, just now": {
			map[string]int{"tuning-1.2.3-" + uidB + "-1": 4, "tuning-1.2.3-" + uidB + "-2": 3, "tuning-1.2.3-" + uidB + "-3": 2},
			"tuning-1.2.3-A-9 tuning-1.2.3-B-1 tuning-1.2.3-B-2 tuning-1.2.3-B-3"},
		"what is no copy of this package": {
			map[string]int{a("tuning-extra-1.2.3", 1): 900, a("tuning-1-a-1.0.0", 1): 900, a("tuning-v1x-1.0.0", 1): 900, "tuning-1.2.3": 900,
				"tuning-1.2.3-5": 900, "tuning-notes": 900, a("tuning-1.2.3-rc.1", 2): 50, a("tuning-1.2.3", 3): 49, a("tuning-1.2.3", 4): 48},
			"tuning-1-a-1.0.0-A-1 tuning-1.2.3 tuning-1.2.3-A-3 tuning-1.2.3-A-4 tuning-1.2.3-A-9 tuning-1.2.3-5 tuning-extra-1.2.3-A-1 tuning-notes tuning-v1x-1.0.0-A-1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := cluttered(t, c.ages)
			requireOutcome(t, Succeeded, m.runOwn(ModeApply))
			require.Equal(t, c.want, m.left("tuning"))
		})
	}
}

func TestUninstallingLeavesOneCopy(t *testing.T) {
	m := cluttered(t, map[string]int{"tuning-1.2.2-" + uidA + "-8": 1, "other-1.2.2-" + uidA + "-8": 1})
	requireOutcome(t, Succeeded, m.runOwn(ModeUninstall))
	require.Equal(t, "tuning-1.2.2-A-8 tuning-1.2.3-A-9", m.left("tuning"))
	requireOutcome(t, Succeeded, m.runOwn(ModeUninstall.Check()))
	require.Equal(t, "tuning-1.2.3-A-9", m.left("tuning"))
	require.Equal(t, "other-1.2.2-A-8", m.left("other"))
}

func TestCopiesThatAreInUseStay(t *testing.T) {
	m := cluttered(t, map[string]int{
		"tuning-1.0.0-" + uidA + "-1": 9, "tuning-1.0.0-" + uidA + "-2": 8, "tuning-1.0.0-" + uidA + "-3": 7, "tuning-1.0.0-" + uidA + "-4": 6,
	})
	work, err := m.root.Path(stateDir + "/tuning-1.0.0-" + uidA + "-1")
	require.NoError(t, err)
	t.Chdir(work) // this process works there
	requireOutcome(t, Succeeded, m.runOwn(ModeApply))
	require.Equal(t, "tuning-1.0.0-A-1 tuning-1.0.0-A-3 tuning-1.0.0-A-4 tuning-1.2.3-A-9", m.left("tuning"))
	require.Contains(t, m.log.String(), fmt.Sprintf("-1 of an earlier round stays: it is in use by process %d\n", os.Getpid()))
}

func TestWithoutFenceOldCopiesStayForADay(t *testing.T) {
	m := cluttered(t, map[string]int{
		"tuning-1.0.0-" + uidA + "-1": 25, "tuning-1.0.0-" + uidA + "-2": 23, "tuning-1.0.0-" + uidA + "-3": 7, "tuning-1.0.0-" + uidA + "-4": 6,
	})
	m.env = append(m.env, "FLEETWRIGHT_ROUND=") // as NodeWright's own operator starts it
	requireOutcome(t, Succeeded, m.runOwn(ModeApply))
	require.Equal(t, "tuning-1.0.0-A-2 tuning-1.0.0-A-3 tuning-1.0.0-A-4 tuning-1.2.3-A-9", m.left("tuning"))
}

func TestChecksAloneRemoveNothing(t *testing.T) {
	ages := map[string]int{}
	for round := range 6 {
		ages[fmt.Sprintf("tuning-1.0.0-%s-%d", uidA, round)] = 10 + round
	}
	m := cluttered(t, ages)
	m.env = append(m.env, "FLEETWRIGHT_CHECK_FIRST=true")
	requireOutcome(t, Succeeded, m.runOwn(ModeApply.Check()))
	require.Len(t, strings.Fields(m.left("tuning")), 7)
}

func TestDirectoryOutsideOfTheLayoutIsLeftAlone(t *testing.T) {
	m := cluttered(t, map[string]int{"tuning-1.0.0-" + uidA + "-1": 99, "tuning-1.0.0-" + uidA + "-2": 99, "tuning-1.0.0-" + uidA + "-3": 99})
	require.NoError(t, m.root.Rename(ownCopy, stateDir+"/by-hand"))
	r := m.agent().Run(t.Context(), Invocation{Mode: ModeApply, Root: string(m.root), CopyDir: stateDir + "/by-hand"})
	requireOutcome(t, Succeeded, r)
	require.Equal(t, "tuning-1.0.0-A-1 tuning-1.0.0-A-2 tuning-1.0.0-A-3", m.left("tuning"))
}

func TestMarkersAndLogsOfEarlierRoundsGo(t *testing.T) {
	m := cluttered(t, nil)
	for round := 1; round <= 8; round++ {
		m.age(fmt.Sprintf("%s/interrupts/flags/gpu-%s-%d_tuning_1.2.3", stateDir, uidA, round), 20-round)
		m.age(fmt.Sprintf("%s/interrupts/flags/gpu-%s-%d_other_1.2.3", stateDir, uidA, round), 20-round)
		m.age(fmt.Sprintf("/var/log/skyhook/gpu/tuning_pkg/1.%d.0", round), 20-round)
		m.age(fmt.Sprintf("/var/log/skyhook/gpu/tuning/v1.%d", round), 20-round)
	}
	m.write("/var/log/skyhook/gpu/tuning_pkg/notes", "mine")
	requireOutcome(t, Succeeded, m.runOwn(ModeApply))
	names, err := m.root.Names(stateDir + "/interrupts/flags")
	require.NoError(t, err)
	require.Equal(t, "8 [gpu-"+uidA+"-7_tuning_1.2.3 gpu-"+uidA+"-8_other_1.2.3 gpu-"+uidA+"-8_tuning_1.2.3]", fmt.Sprint(len(names)-2, " ", names[len(names)-3:]))
	names, err = m.root.Names("/var/log/skyhook/gpu/tuning_pkg")
	require.NoError(t, err)
	require.Equal(t, []string{"1.2.3", "1.5.0", "1.6.0", "1.7.0", "1.8.0", "notes"}, names)
	names, err = m.root.Names("/var/log/skyhook/gpu/tuning")
	require.NoError(t, err)
	require.Equal(t, []string{"v1.5", "v1.6", "v1.7", "v1.8"}, names, "of interrupts")
}

// A link in the place of a copy goes, what it leads to stays.
func TestLinkInThePlaceOfACopy(t *testing.T) {
	m := cluttered(t, map[string]int{"tuning-1.0.0-" + uidA + "-3": 7, "tuning-1.0.0-" + uidA + "-4": 6})
	m.write("/srv/data/keep", "x")
	link := filepath.Join(string(m.root), stateDir, "tuning-1.0.0-"+uidA+"-1")
	require.NoError(t, os.Symlink("/srv/data", link))
	m.clock = time.Now().Add(time.Hour) // the link is new: now it is not the newest
	for i, n := range []int{3, 4} {
		require.NoError(t, m.root.Touch(fmt.Sprintf("%s/tuning-1.0.0-%s-%d", stateDir, uidA, n), m.clock.Add(time.Duration(i)*time.Minute)))
	}
	requireOutcome(t, Succeeded, m.runOwn(ModeApply))
	require.NoFileExists(t, link)
	require.Equal(t, "x", m.read("/srv/data/keep"))
}

func TestInUse(t *testing.T) {
	dir := t.TempDir()
	root := host.Root(dir)
	require.NoError(t, root.WriteFile("/a/b/c", nil, 0o644))
	by, err := root.InUse("/a/b")
	require.NoError(t, err)
	require.Empty(t, by)
	t.Chdir(path.Join(dir, "a/b"))
	by, err = root.InUse("/a")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("process %d", os.Getpid()), by)
	by, err = host.Root("/").InUse("/proc")
	require.NoError(t, err)
	require.Contains(t, by, "a mount at /proc")
}
