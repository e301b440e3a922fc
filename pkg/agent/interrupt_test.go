package agent

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/host/hosttest"
)

const markers = stateDir + "/interrupts/flags/gpu-0f1e-5_tuning_1.2.3/"

// recorded is a machine whose interrupts are written down instead of done.
func recorded(t *testing.T, answer func(line string) (string, int)) (*machine, *hosttest.Recorder) {
	m := newMachine(t)
	rec := &hosttest.Recorder{Answer: answer}
	m.runner = rec
	return m, rec
}

// show is the look at one unit.
func show(unit string) string {
	return "systemctl show --property=ActiveState,SubState,Result,Type,NRestarts " + unit
}

// up is the answer of a systemd on which everything runs.
func up(line string) (string, int) {
	if strings.HasPrefix(line, "systemctl show") {
		return "Type=notify\nNRestarts=0\nResult=success\nActiveState=active\nSubState=running\n", 0
	}
	return "", 0
}

func TestServiceInterrupt(t *testing.T) {
	m, rec := recorded(t, up)
	const spec = `{"type":"service_restart","services":["containerd","chrony"]}`
	requireOutcome(t, Succeeded, m.interrupt(spec))
	want := []string{
		"systemctl daemon-reload", "systemctl restart containerd", "systemctl restart chrony",
		show("containerd"), show("chrony"), show("containerd"), show("chrony"),
	}
	require.Equal(t, want, rec.Calls())
	require.Equal(t, settle, m.waited, "between the two looks")
	names, err := m.root.Names(markers)
	require.NoError(t, err)
	require.Equal(t, []string{"service_restart_0.complete", "service_restart_1.complete", "service_restart_2.complete"}, names)
	requireOutcome(t, Succeeded, m.interrupt(spec))
	require.Len(t, rec.Calls(), len(want), "once in a round")
}

func TestServiceInterruptGoesOnWhereItFailed(t *testing.T) {
	fail := true
	m, rec := recorded(t, func(line string) (string, int) {
		if line == "systemctl restart chrony" && fail {
			return "Job failed\n", 5
		}
		return up(line)
	})
	const spec = `{"type":"service_restart","services":["containerd","chrony"]}`
	r := m.interrupt(spec)
	requireOutcome(t, Failed, r)
	require.Equal(t, "systemctl restart chrony returned 5", r.Message)
	require.Equal(t, []string{"Job failed"}, r.Lines)
	fail = false
	requireOutcome(t, Succeeded, m.interrupt(spec))
	require.Equal(t, 1, count(rec.Calls(), "systemctl restart containerd"))
	require.Equal(t, 2, count(rec.Calls(), "systemctl restart chrony"))
}

func count(list []string, want string) (n int) {
	for _, s := range list {
		if s == want {
			n++
		}
	}
	return n
}

// Each type of interrupt runs exactly what its name and the documentation say, and an unknown one nothing.
func TestFieldReport_RB14_EachTypeDoesWhatItsNameSays(t *testing.T) {
	const list = "systemctl list-units --type=service --state=running --plain --no-legend --no-pager"
	for spec, want := range map[string][]string{
		`{"type":"node_restart"}`: {"reboot"},
		`{"type":"service_restart","services":["containerd"]}`: {
			"systemctl daemon-reload", "systemctl restart containerd", show("containerd"), show("containerd"),
		},
		`{"type":"service_restart","services":["b.service","a@1.service"]}`: {
			"systemctl daemon-reload", "systemctl restart b.service", "systemctl restart a@1.service",
			show("b.service"), show("a@1.service"), show("b.service"), show("a@1.service"),
		},
		`{"type":"restart_all_services"}`: {
			list, "systemctl daemon-reload", "systemctl restart chrony.service containerd.service kubelet.service",
			show("chrony.service"), show("containerd.service"), show("kubelet.service"),
			show("chrony.service"), show("containerd.service"), show("kubelet.service"),
		},
		`{"type":"no_op"}`:            nil,
		`{"type":"script_interrupt"}`: nil,
		`{"type":"all_services"}`:     nil,
		`{"type":""}`:                 nil,
		`{}`:                          nil,
	} {
		t.Run(spec, func(t *testing.T) {
			m, rec := recorded(t, func(line string) (string, int) {
				if line == list {
					return "kubelet.service loaded active running K\nchrony.service loaded active running N\n" +
						"containerd.service loaded active running C\ndbus.service loaded active running D\n", 0
				}
				return up(line)
			})
			r := m.interrupt(spec)
			require.Equal(t, want, rec.Calls())
			_, err := parseInterrupt(base64.StdEncoding.EncodeToString([]byte(spec)))
			require.Equal(t, err != nil, strings.Contains(r.Message, "unknown type"), r.Message)
		})
	}
	known := interruptTypes
	require.Len(t, known, 5, "a new type needs a line above")
}

func TestRebootIsProvedByTheBootID(t *testing.T) {
	m, rec := recorded(t, nil)
	const spec = `{"type":"node_restart"}`
	r := m.interrupt(spec)
	requireOutcome(t, Failed, r)
	require.Equal(t, "reboot was asked for; the machine is still on its old boot", r.Message)
	require.Equal(t, 10*time.Second, m.waited)
	require.Equal(t, "boot-1\n", m.read(markers+"node_restart_0.pending"))

	m.boot = "boot-2" // the pod runs again after the reboot
	requireOutcome(t, Succeeded, m.interrupt(spec))
	m.boot = "boot-3"
	requireOutcome(t, Succeeded, m.interrupt(spec))
	require.Equal(t, []string{"reboot"}, rec.Calls(), "one request, one reboot")

	m.round++
	requireOutcome(t, Failed, m.interrupt(spec))
	require.Len(t, rec.Calls(), 2, "a new round arms it again")
}

func TestRebootStoresTheBootIDBeforeItAsks(t *testing.T) {
	var m *machine
	m, _ = recorded(t, func(string) (string, int) {
		require.Equal(t, "boot-1\n", m.read(markers+"node_restart_0.pending"))
		return "", 143 // the command dies with the machine
	})
	r := m.interrupt(`{"type":"node_restart"}`)
	require.Equal(t, "reboot was asked for; the machine is still on its old boot", r.Message)
}

func TestRebootThatIsRefusedSaysSo(t *testing.T) {
	m, _ := recorded(t, func(string) (string, int) { return "inhibited\n", 1 })
	r := m.interrupt(`{"type":"node_restart"}`)
	require.Equal(t, "reboot returned 1", r.Message)
	require.Equal(t, []string{"inhibited"}, r.Lines)
	require.Zero(t, m.waited)
}

func TestMarkerOfTheNodeWrightAgentIsHonoured(t *testing.T) {
	m, rec := recorded(t, nil)
	m.write(markers+"node_restart_0.complete", "")
	requireOutcome(t, Succeeded, m.interrupt(`{"type":"node_restart"}`))
	require.Empty(t, rec.Calls())
}

func TestNoop(t *testing.T) {
	m, rec := recorded(t, nil)
	requireOutcome(t, Succeeded, m.interrupt(`{"type":"no_op"}`))
	require.True(t, m.root.Exists(markers+"no_op.complete"))
	require.Empty(t, rec.Calls())
}

func TestBadInterrupts(t *testing.T) {
	for spec, want := range map[string]string{
		`{"type":"reboot"}`:                                 `read interrupt: unknown type "reboot" (allowed: node_restart, service_restart, restart_all_services, no_op, script_interrupt)`,
		`{"type":"service_restart"}`:                        "read interrupt: type service_restart needs services",
		`{"type":"node_restart","services":["a"]}`:          "read interrupt: type node_restart takes no services",
		`{"type":"service_restart","services":["--force"]}`: `read interrupt: "--force" is not the name of a service`,
		`{"type":"service_restart","services":["ssh*"]}`:    `read interrupt: "ssh*" is not the name of a service`,
		`{"type":"service_restart","services":[""]}`:        `read interrupt: "" is not the name of a service`,
		`{"type":"service_restart","services":["a b"]}`:     `read interrupt: "a b" is not the name of a service`,
		`{"typ":"no_op"}`:                                   `read interrupt: the argument is not {"type", "services"}: json: unknown field "typ"`,
	} {
		m, rec := recorded(t, nil)
		r := m.interrupt(spec)
		requireOutcome(t, Failed, r)
		require.Equal(t, want, r.Message)
		require.Empty(t, rec.Calls())
	}
	_, err := parseInterrupt("%%")
	require.EqualError(t, err, "read interrupt: the argument is not base64")
}

// Whatever the argument is: what is let through restarts units by name, and is nothing that systemctl takes for an option.
func FuzzInterrupt(f *testing.F) {
	for _, text := range []string{`{"type":"service_restart","services":["a@1.service"]}`, `{"type":"no_op"}`, `{"type":"service_restart","services":["-a"]}`, `{`, `null`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		req, err := parseInterrupt(base64.StdEncoding.EncodeToString(data))
		if err != nil {
			return
		}
		require.Contains(t, interruptTypes, req.Type)
		require.Equal(t, req.Type == interruptService, len(req.Services) > 0)
		for _, s := range req.Services {
			require.NotContains(t, "-", s[:1])
			require.False(t, strings.ContainsAny(s, "*?[] \t\n\x00/"), s)
		}
	})
}
