//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
	"github.com/fleetwright/fleetwright/test/realnode"
)

// The whole product, from a push to a file on a machine and back. The chapters build on each other.
func TestPushesChangeRealMachines(t *testing.T) {
	l := open(t)
	machines := l.machines()
	for _, m := range machines {
		l.until(m.Name+" is Ready", func() string { return l.ready(m) })
	}
	before := map[string]disk{}
	for _, m := range machines {
		before[m.Name] = look(t, m)
	}
	l.addWorkload()
	w := l.watch()
	for _, c := range []struct {
		name string
		tell func(*lab)
	}{
		{"a push installs packages, restarts a service and reboots", install},
		{"a broken push halts at the first node and says why", breakIt},
		{"a revert heals it", revert},
		{"a machine loses its power in the middle of a step", powerFailure},
	} {
		l.say("--- %s", c.name)
		c.tell(l)
	}
	w.verdict(t)
	l.say("--- a push takes everything off, from both machines at once")
	takeOff(l)
	for _, m := range machines {
		require.Equal(t, before[m.Name], look(t, m), "%s is as it was before the first push", m.Name)
	}
}

// install is the first push: everything that the packages promise is on the machines, and everything that was done is told.
func install(l *lab) {
	commit := l.push("Tune the fleet", gitserver.Change{Files: l.manifests()})
	l.told(commit, "success")
	for _, m := range l.machines() {
		l.installed(m)
	}
	l.logsAndResults()
	l.onceEach()
	l.moved()
}

func (l *lab) installed(m *realnode.Machine) {
	t := l.t
	require.Equal(t, "managed on "+m.Name+"\n", read(m, "/etc/acme/motd"))
	require.Equal(t, "level=high\n", read(m, "/etc/acme/settings"))
	require.Equal(t, "net.ipv4.tcp_keepalive_time = 1234\n", read(m, "/etc/sysctl.d/90-fleetwright.conf"))
	require.Contains(t, read(m, "/etc/systemd/system/demo.service.d/50-fleetwright.conf"), "LimitNOFILE=1048576")
	require.Contains(t, read(m, "/etc/security/limits.d/60-tuning.conf"), "* - memlock unlimited\n")
	units := lines(read(m, "/var/log/systemctl.log"))
	require.Contains(t, units, "restart demo")
	require.Contains(t, units, "daemon-reload")
	boots, err := m.Boots()
	require.NoError(t, err)
	require.Equal(t, 2, boots, "two packages asked for a reboot of %s, and one was enough", m.Name)
	require.Equal(t, "reboot\n", read(m, "/var/log/reboot.log"))
	value, err := m.Run("sysctl", "-n", "net.ipv4.tcp_keepalive_time")
	require.NoError(t, err)
	require.Equal(t, "1234\n", value, "the kernel has it, after the reboot too")
	cmdline, err := m.Run("cat", "/proc/cmdline")
	require.NoError(t, err)
	require.Equal(t, "BOOT_IMAGE=/vmlinuz transparent_hugepage=never iommu=pt nohz_full=2-7\n", cmdline)
}

// logsAndResults reads what people and the reconciler read of an execution.
func (l *lab) logsAndResults() {
	pods := l.pods("nodewright.nvidia.com/package=shellscript-1.1.2")
	require.Len(l.t, pods, 2)
	for _, p := range pods {
		require.Equal(l.t, corev1.PodSucceeded, p.Status.Phase)
		log := l.logs(p.Name, "shellscript-apply")
		require.Contains(l.t, log, "CLI CONFIGURATION")
		require.Regexp(l.t, `(?m)^\[out\] \S+ apply: wrote /etc/acme/motd as process \d+$`, log)
		require.Contains(l.t, l.logs(p.Name, "shellscript-applycheck"), "apply-check: the check saw /etc/acme/motd")
		var stages []string
		for _, c := range p.Status.InitContainerStatuses[1:] {
			var result struct{ Stage, Outcome string }
			require.NoError(l.t, json.Unmarshal([]byte(c.State.Terminated.Message), &result), c.State.Terminated.Message)
			require.Equal(l.t, "succeeded", result.Outcome)
			stages = append(stages, result.Stage)
		}
		require.Equal(l.t, "apply apply-check config config-check", strings.Join(stages, " "))
	}
}

// onceEach counts what must not happen twice: the reboot and what comes after it.
func (l *lab) onceEach() {
	for _, phase := range []string{"interrupt", "post-interrupt"} {
		jobs, err := l.kube.BatchV1().Jobs(namespace).List(l.t.Context(), metav1.ListOptions{
			LabelSelector: "nodewright.nvidia.com/name=host-kernel,fleetwright.dev/phase=" + phase,
		})
		require.NoError(l.t, err)
		seen := map[string]int{}
		for _, j := range jobs.Items {
			seen[j.Annotations["fleetwright.dev/node"]+" "+j.Labels["fleetwright.dev/package"]]++
		}
		require.NotEmpty(l.t, seen)
		for what, n := range seen {
			require.Equal(l.t, 1, n, "%s of %s", phase, what)
		}
	}
}

// script replaces the script of the configuration stage in the NodeWright of scripts.
func (l *lab) script(lines ...string) gitserver.Change {
	const old = "          echo \"level=high\" >/etc/acme/settings.new\n          mv /etc/acme/settings.new /etc/acme/settings\n"
	text := l.manifests()["host-tools.yaml"]
	require.Contains(l.t, text, old)
	text = strings.Replace(text, old, "          "+strings.Join(lines, "\n          ")+"\n", 1)
	return gitserver.Change{Files: map[string]string{"host-tools.yaml": text}}
}

// breakIt pushes a script that fails. Nobody but the first node sees it, and the last words of the script are where people look.
func breakIt(l *lab) {
	commit := l.push("A typo", l.script(`echo "reading the disk"`, `echo "cannot reach the disk of /etc/acme" >&2`, "exit 7"))
	note := l.told(commit, "failure")
	require.Contains(l.t, note, "shellscript")
	nw := l.nodeWright("host-tools")
	ready := ""
	for _, c := range nw.Status.Conditions {
		ready += c.Type + ": " + c.Message + "\n"
	}
	require.Contains(l.t, ready, "cannot reach the disk of /etc/acme")
	require.Contains(l.t, ready, "returned 7")
	events, err := l.kube.CoreV1().Events("").List(l.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=host-tools"})
	require.NoError(l.t, err)
	require.True(l.t, slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		return e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, "cannot reach the disk of /etc/acme")
	}), "an event quotes the script too")
	failed := map[string]int{}
	for _, p := range l.pods("nodewright.nvidia.com/package=shellscript-1.1.2") {
		if p.Status.Phase == corev1.PodFailed {
			failed[p.Spec.NodeName]++
		}
	}
	require.Len(l.t, failed, 1, "the rollout halted at its first node")
	for _, n := range failed {
		require.Equal(l.t, 2, n, "both attempts")
	}
}

func revert(l *lab) {
	commit := l.push("Revert the typo", gitserver.Change{Files: l.manifests()})
	l.told(commit, "success")
	for _, m := range l.machines() {
		require.Equal(l.t, "level=high\n", read(m, "/etc/acme/settings"))
		l.installed(m)
	}
}

// powerFailure takes the power away while a step is half done. Nothing but the machine itself knows of it.
func powerFailure(l *lab) {
	commit := l.push("More of it", l.script(`echo "level=max" >/etc/acme/settings.new`, "touch /var/log/acme-half",
		"while [ ! -e /var/log/acme-go ]; do sleep 0.1; done", "mv /etc/acme/settings.new /etc/acme/settings"))
	var victim *realnode.Machine
	l.until("a step is half done", func() string {
		for _, m := range l.machines() {
			if _, err := os.Stat(m.Path("/var/log/acme-half")); err == nil {
				victim = m
				return ""
			}
		}
		return "no step has begun"
	})
	boots, err := victim.Boots()
	require.NoError(l.t, err)
	require.Equal(l.t, "level=high\n", read(victim, "/etc/acme/settings"), "half of it is not seen")
	victim.Off()
	l.say("%s lost its power", victim.Name)
	for _, m := range l.machines() {
		require.NoError(l.t, os.WriteFile(m.Path("/var/log/acme-go"), nil, 0o644))
	}
	require.NoError(l.t, victim.On())
	l.told(commit, "success")
	after, err := victim.Boots()
	require.NoError(l.t, err)
	require.Equal(l.t, boots+1, after, "nobody rebooted it but the power failure")
	for _, m := range l.machines() {
		require.Equal(l.t, "level=max\n", read(m, "/etc/acme/settings"))
		require.Empty(l.t, leftovers(look(l.t, m)), m.Name)
	}
}

// takeOff removes both NodeWrights from the repository: uninstalling is what removes them from the cluster. The same commit
// widens the policy, and nobody caps the cluster any more, so both machines are at work.
func takeOff(l *lab) {
	empty, err := os.ReadFile("testdata/fleet/empty.yaml")
	require.NoError(l.t, err)
	wide := strings.NewReplacer("count: 1", "count: 2", "initialBatch: 1", "initialBatch: 2").Replace(l.manifests()["policy.yaml"])
	l.patchFleet(`{"spec":{"disruption":null}}`)
	l.push("Take everything off", gitserver.Change{
		Files:  map[string]string{"kustomization.yaml": string(empty), "policy.yaml": wide},
		Delete: []string{"host-tools.yaml", "host-kernel.yaml"},
	})
	l.until("the NodeWrights are gone", func() string {
		list := &nwv1.NodeWrightList{}
		require.NoError(l.t, l.client.List(l.t.Context(), list))
		if len(list.Items) > 0 {
			return fmt.Sprintf("%d are left", len(list.Items))
		}
		return ""
	})
	l.until("the machines are given back", func() string {
		for _, m := range l.machines() {
			if wrong := l.ready(m); wrong != "" {
				return wrong
			}
		}
		return ""
	})
}
