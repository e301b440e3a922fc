package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// systemd plays a systemd whose units go through states, one for each look; the last one stays. Units that are not named run.
type systemd struct {
	running []string
	states  map[string][]string
	looks   map[string]int
}

func (s *systemd) answer(line string) (string, int) {
	fields := strings.Fields(line)
	unit := fields[len(fields)-1]
	switch fields[1] {
	case "list-units":
		var out strings.Builder
		for _, u := range s.running {
			fmt.Fprintf(&out, "  %s loaded active running %s\n", u, u)
		}
		return out.String(), 0
	case "show":
		list := s.states[unit]
		if len(list) == 0 {
			return up(line)
		}
		n := min(s.looks[unit], len(list)-1)
		s.looks[unit]++
		return strings.ReplaceAll(list[n], " ", "\n") + "\n", 0
	}
	return "", 0
}

func newSystemd(states map[string][]string) *systemd {
	return &systemd{states: states, looks: map[string]int{}}
}

const (
	isUp     = "ActiveState=active SubState=running Type=simple Result=success NRestarts=0"
	isFailed = "ActiveState=failed SubState=failed Type=simple Result=exit-code NRestarts=0"
	isAgain  = "ActiveState=activating SubState=auto-restart Type=simple Result=exit-code NRestarts=1"
)

func TestServiceIsUpOnlyIfItStaysUp(t *testing.T) {
	for name, c := range map[string]struct {
		states []string
		want   string // empty: it counts as up
		waited time.Duration
	}{
		"at once":          {[]string{isUp}, "", settle},
		"failed":           {[]string{isFailed}, "not up after the restart: containerd is failed, result exit-code", 0},
		"fails afterwards": {[]string{isUp, isFailed}, "not up after the restart: containerd is failed, result exit-code", settle},
		"stopped":          {[]string{"ActiveState=inactive SubState=dead Type=simple Result=success NRestarts=0"}, "not up after the restart: containerd is inactive (dead)", 0},
		"takes its time":   {[]string{"ActiveState=activating SubState=start Type=notify", "ActiveState=activating SubState=start Type=notify", isUp}, "", 3 * settle},
		"never ready": {[]string{"ActiveState=activating SubState=start Type=notify NRestarts=0"},
			"not up after the restart: containerd is activating (start)", time.Minute},
		"restarted once, then up": {[]string{isUp, isAgain, strings.Replace(isUp, "NRestarts=0", "NRestarts=1", 1)}, "", 3 * settle},
		"comes and goes":          {loop(), "not up after the restart: containerd is active (running), restarts 20", time.Minute},
		"runs to its end":         {[]string{"ActiveState=inactive SubState=dead Type=oneshot Result=success NRestarts=0"}, "", settle},
		"ran and failed": {[]string{"ActiveState=inactive SubState=dead Type=oneshot Result=exit-code NRestarts=0"},
			"not up after the restart: containerd is inactive (dead), result exit-code", 0},
		"reloading":           {[]string{"ActiveState=reloading SubState=reload Type=notify"}, "", settle},
		"an old systemd":      {[]string{"ActiveState=active"}, "", settle},
		"nothing is answered": {[]string{""}, "not up after the restart: containerd is unknown to systemd", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystemd(map[string][]string{"containerd": c.states})
			m, _ := recorded(t, s.answer)
			r := m.interrupt(`{"type":"service_restart","services":["containerd"]}`)
			require.Equal(t, c.want, r.Message)
			require.Equal(t, c.want == "", r.Outcome == Succeeded)
			require.Equal(t, c.waited, m.waited)
			if c.want != "" {
				require.Equal(t, "verify containerd 3", fmt.Sprint(r.Step, " ", r.ExitCode))
			}
		})
	}
}

// loop is a service that is active whenever somebody looks, and was restarted each time.
func loop() (states []string) {
	for i := range maxLooks {
		states = append(states, fmt.Sprintf("ActiveState=active SubState=running Type=simple Result=success NRestarts=%d", i))
	}
	return states
}

func TestServiceThatDoesNotComeBackIsRestartedByTheNextAttempt(t *testing.T) {
	s := newSystemd(map[string][]string{"chrony": {isFailed, isUp}})
	m, rec := recorded(t, s.answer)
	const spec = `{"type":"service_restart","services":["containerd","chrony"]}`
	requireOutcome(t, Failed, m.interrupt(spec))
	requireOutcome(t, Succeeded, m.interrupt(spec))
	require.Equal(t, 1, count(rec.Calls(), "systemctl restart containerd"))
	require.Equal(t, 2, count(rec.Calls(), "systemctl restart chrony"))
	require.Equal(t, 1, count(rec.Calls(), "systemctl daemon-reload"))
}

// A service that the first attempt brought down is not running any more when the second one looks.
func TestRestartAllServicesForgetsNoneOfThem(t *testing.T) {
	s := newSystemd(map[string][]string{"chrony.service": {isFailed, isFailed, isUp}})
	s.running = []string{"containerd.service", "chrony.service", "systemd-journald.service", "user@0.service"}
	m, rec := recorded(t, s.answer)
	const spec = `{"type":"restart_all_services"}`
	requireOutcome(t, Failed, m.interrupt(spec))
	s.running = []string{"containerd.service", "systemd-journald.service"}
	require.Equal(t, "not up after the restart: chrony.service is failed, result exit-code", m.interrupt(spec).Message)
	requireOutcome(t, Succeeded, m.interrupt(spec))
	require.Equal(t, 3, count(rec.Calls(), "systemctl restart chrony.service containerd.service"))
}

// In a chroot that is not the machine's root, systemctl does nothing, prints nothing and returns 0.
func TestNoSystemdIsNoSuccess(t *testing.T) {
	m, _ := recorded(t, nil)
	require.Equal(t, "systemctl lists no running service: no systemd answers on this host", m.interrupt(`{"type":"restart_all_services"}`).Message)
	require.Equal(t, "not up after the restart: ssh is unknown to systemd", m.interrupt(`{"type":"service_restart","services":["ssh"]}`).Message)
}

// What an interrupt's commands print stays on the host: after a reboot the pod's log may be gone.
func TestInterruptsKeepTheirLogsOnTheHost(t *testing.T) {
	m, _ := recorded(t, func(string) (string, int) { return "Rebooting.\n", 0 })
	const dir = "/var/log/skyhook/gpu/tuning/1.2.3/"
	for range 7 {
		m.round++
		requireOutcome(t, Failed, m.interrupt(`{"type":"node_restart"}`))
	}
	names, err := m.root.Names(dir)
	require.NoError(t, err)
	require.Len(t, names, 2*keepLogs)
	require.Regexp(t, `^interrupt-2026-03-01-12\d{4}\.log$`, names[1])
	require.Equal(t, "$ reboot\nRebooting.\n", m.read(dir+names[1]))
}

func TestRestartAllServicesWithNothingToRestartReloads(t *testing.T) {
	s := newSystemd(nil)
	s.running = []string{"systemd-journald.service", "dbus.service"}
	m, rec := recorded(t, s.answer)
	requireOutcome(t, Succeeded, m.interrupt(`{"type":"restart_all_services"}`))
	require.Equal(t, "systemctl daemon-reload", rec.Calls()[1])
	require.Len(t, rec.Calls(), 2)
}
