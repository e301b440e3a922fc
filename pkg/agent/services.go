package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

const (
	// settle is the time between two looks at restarted services. A service of Type=simple counts as active once its process was
	// started, and may end in the next second: only a second look tells.
	settle = 3 * time.Second
	// maxLooks is how often the agent looks before it gives a service up: for a minute.
	maxLooks = 21
	// notRunning is the exit code of a service that is not up, as init scripts return it.
	notRunning = 3
)

// restart is one command that restarts units, at the name of its marker.
type restart struct {
	marker string
	units  []string
}

// restartServices reloads units, because a package may have changed them, restarts one after the other, and verifies each.
func (a *Agent) restartServices(ctx context.Context, services []string) Result {
	var list []restart
	for i, s := range services {
		list = append(list, restart{fmt.Sprintf("%s_%d", interruptService, i+1), []string{s}})
	}
	return a.restartAndVerify(ctx, interruptService, list)
}

// restartAll restarts every running service but those in keepRunning, in one transaction, so that systemd keeps their order.
func (a *Agent) restartAll(ctx context.Context) Result {
	services, r := a.allServices(ctx)
	if r.Outcome != Succeeded {
		return r
	}
	if len(services) == 0 {
		return a.once(ctx, interruptAllService+"_0", systemctl("daemon-reload"))
	}
	return a.restartAndVerify(ctx, interruptAllService, []restart{{interruptAllService + "_1", services}})
}

// restartAndVerify does what is not marked as done, then waits for every unit. One that does not come back is restarted again by
// the next attempt.
func (a *Agent) restartAndVerify(ctx context.Context, kind string, list []restart) Result {
	if r := a.once(ctx, kind+"_0", systemctl("daemon-reload")); r.Outcome != Succeeded {
		return r
	}
	var units []string
	for _, c := range list {
		if r := a.once(ctx, c.marker, systemctl(append([]string{"restart"}, c.units...)...)); r.Outcome != Succeeded {
			return r
		}
		units = append(units, c.units...)
	}
	bad, r := a.settled(ctx, units)
	for _, c := range list {
		if !slices.ContainsFunc(bad, func(u string) bool { return slices.Contains(c.units, u) }) {
			continue
		}
		if err := a.unmark(c.marker); err != nil {
			return failed(err)
		}
	}
	return r
}

// once runs a command unless its marker says that it was done. The marker comes after the command: one that was cut short runs
// again, because a service that restarts twice is better than one that never does.
func (a *Agent) once(ctx context.Context, marker string, c hostCommand) Result {
	if a.marked(marker, complete) {
		a.logf("%s was done before: skipped", strings.Join(c, " "))
		return Result{Outcome: Succeeded}
	}
	r := a.hostRun(ctx, c, nil)
	if r.Outcome != Succeeded {
		return r
	}
	if err := a.mark(marker, complete); err != nil {
		return failed(err)
	}
	return r
}

// keepRunning are services that "restart all" leaves alone: without them the machine loses its bus, its sessions or its log, and
// what they configure is read again by daemon-reload or at the next boot.
var keepRunning = []string{"dbus", "dbus-broker", "systemd-", "getty@", "serial-getty@", "user@", "user-runtime-dir@", "polkit"}

// allServices are those that ran when this interrupt looked first. The list is kept on the host: a service that an earlier attempt
// restarted and that did not come back is not running any more, and would be forgotten.
func (a *Agent) allServices(ctx context.Context) ([]string, Result) {
	file := a.marker(interruptAllService, listed)
	data, err := a.Root.ReadFile(file)
	if err == nil {
		return strings.Fields(string(data)), Result{Outcome: Succeeded}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, failed(fmt.Errorf("read list of services: %w", err))
	}
	var out bytes.Buffer
	list := systemctl("list-units", "--type=service", "--state=running", "--plain", "--no-legend", "--no-pager")
	if r := a.hostRun(ctx, list, &out); r.Outcome != Succeeded {
		return nil, r
	}
	if len(bytes.TrimSpace(out.Bytes())) == 0 { // a running systemd has at least its own; systemctl is silent where it finds none
		return nil, Result{Outcome: Failed, Step: strings.Join(list, " "), Message: "systemctl lists no running service: no systemd answers on this host"}
	}
	services := runningServices(out.String())
	if err := a.Root.WriteFile(file, []byte(strings.Join(services, "\n")+"\n"), 0o644); err != nil {
		return nil, failed(fmt.Errorf("write list of services: %w", err))
	}
	return services, Result{Outcome: Succeeded}
}

func runningServices(listing string) []string {
	var services []string
	for line := range strings.Lines(listing) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !strings.HasSuffix(fields[0], ".service") || !unitName().MatchString(fields[0]) {
			continue
		}
		keep := slices.ContainsFunc(keepRunning, func(prefix string) bool { return strings.HasPrefix(fields[0], prefix) })
		if !keep {
			services = append(services, fields[0])
		}
	}
	slices.Sort(services)
	return services
}

// unitState is what systemd says about a unit, by the names of its properties.
type unitState struct {
	ActiveState, SubState, Result, Type, NRestarts string
}

// up: it runs, or it is of the kind that runs to its end, and did.
func (s unitState) up() bool {
	switch s.ActiveState {
	case "active", "reloading", "refreshing":
		return true
	case "inactive":
		return s.Type == "oneshot" && s.Result == "success"
	}
	return false
}

// coming: systemd still works on it, say by starting it for the third time.
func (s unitState) coming() bool {
	return s.ActiveState == "activating" || s.ActiveState == "deactivating"
}

func (s unitState) String() string {
	text := s.ActiveState
	if text == "" {
		return "unknown to systemd"
	}
	if s.SubState != "" && s.SubState != s.ActiveState {
		text += " (" + s.SubState + ")"
	}
	if s.Result != "" && s.Result != "success" {
		text += ", result " + s.Result
	}
	if s.NRestarts != "" && s.NRestarts != "0" {
		text += ", restarts " + s.NRestarts
	}
	return text
}

// settled waits until every unit was up in two looks, one after the other, and was not restarted by systemd between them. It names
// those that are not.
func (a *Agent) settled(ctx context.Context, units []string) (bad []string, r Result) {
	var before map[string]unitState
	for look := range maxLooks {
		if look > 0 {
			a.pause(ctx, settle)
		}
		now, r := a.unitStates(ctx, units)
		if r.Outcome != Succeeded {
			return nil, r
		}
		down := slices.DeleteFunc(slices.Clone(units), func(u string) bool { return now[u].up() || now[u].coming() })
		if len(down) > 0 {
			return down, notUp(down, now)
		}
		bad = slices.DeleteFunc(slices.Clone(units), func(u string) bool {
			return now[u].up() && before[u].up() && now[u].NRestarts == before[u].NRestarts
		})
		if len(bad) == 0 {
			return nil, Result{Outcome: Succeeded}
		}
		before = now
	}
	return bad, notUp(bad, before)
}

func notUp(units []string, states map[string]unitState) Result {
	texts := make([]string, 0, len(units))
	for _, u := range units {
		texts = append(texts, fmt.Sprintf("%s is %s", u, states[u]))
	}
	return Result{
		Outcome: Failed, Step: "verify " + strings.Join(units, " "), ExitCode: notRunning,
		Message: "not up after the restart: " + strings.Join(texts, "; "),
	}
}

func (a *Agent) unitStates(ctx context.Context, units []string) (map[string]unitState, Result) {
	states := map[string]unitState{}
	for _, u := range units {
		var out bytes.Buffer
		if r := a.hostRun(ctx, systemctl("show", "--property=ActiveState,SubState,Result,Type,NRestarts", u), &out); r.Outcome != Succeeded {
			return nil, r
		}
		states[u] = parseUnitState(out.String())
		a.logf("%s is %s", u, states[u])
	}
	return states, Result{Outcome: Succeeded}
}

func parseUnitState(text string) unitState {
	var s unitState
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "ActiveState":
			s.ActiveState = value
		case "SubState":
			s.SubState = value
		case "Result":
			s.Result = value
		case "Type":
			s.Type = value
		case "NRestarts":
			s.NRestarts = value
		}
	}
	return s
}
