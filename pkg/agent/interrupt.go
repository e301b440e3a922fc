package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
)

// Types of interrupts as the agent is told them.
const (
	interruptReboot     = "node_restart"
	interruptService    = "service_restart"
	interruptAllService = "restart_all_services"
	interruptNone       = "no_op"
	interruptScript     = "script_interrupt" // known to NVIDIA's agent, has no commands
)

var interruptTypes = []string{interruptReboot, interruptService, interruptAllService, interruptNone, interruptScript}

// rebootWait is how long the agent waits for the machine to go down before it reports that it is still there.
const rebootWait = 10 * time.Second

type interruptRequest struct {
	Type     string   `json:"type"`
	Services []string `json:"services"`
}

// unitName is what may be restarted, as in the CRD: the characters of systemd.unit(5), no option and no pattern.
var unitName = lazily(`^[a-zA-Z0-9:_.@\\][a-zA-Z0-9:_.@\\-]*$`)

func parseInterrupt(arg string) (interruptRequest, error) {
	var req interruptRequest
	data, err := base64.StdEncoding.DecodeString(arg)
	if err != nil {
		return req, fmt.Errorf("read interrupt: the argument is not base64")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		return req, fmt.Errorf("read interrupt: the argument is not {\"type\", \"services\"}: %w", err)
	}
	switch {
	case !slices.Contains(interruptTypes, req.Type):
		return req, fmt.Errorf("read interrupt: unknown type %q (allowed: %s)", req.Type, strings.Join(interruptTypes, ", "))
	case req.Type == interruptService && len(req.Services) == 0:
		return req, fmt.Errorf("read interrupt: type %s needs services", req.Type)
	case req.Type != interruptService && len(req.Services) > 0:
		return req, fmt.Errorf("read interrupt: type %s takes no services", req.Type)
	}
	for _, service := range req.Services {
		if !unitName().MatchString(service) {
			return req, fmt.Errorf("read interrupt: %q is not the name of a service", service)
		}
	}
	return req, nil
}

// interrupt does what the argument asks for, at most once for a resource ID: each command leaves a marker on the host.
func (a *Agent) interrupt(ctx context.Context, arg string) Result {
	req, err := parseInterrupt(arg)
	if err != nil {
		return failed(err)
	}
	a.kept = a.interruptLogs()
	defer a.kept.close()
	if req.Type == interruptReboot {
		return a.reboot(ctx)
	}
	if err := a.safe(ctx); err != nil {
		return unsafe(err)
	}
	switch req.Type {
	case interruptService:
		return a.restartServices(ctx, req.Services)
	case interruptAllService:
		return a.restartAll(ctx)
	}
	if err := a.mark("no_op", complete); err != nil {
		return failed(err)
	}
	return Result{Outcome: Succeeded}
}

// safe asks once more whether the node may be interrupted, as late as possible.
func (a *Agent) safe(ctx context.Context) error {
	if a.SafeToInterrupt == nil {
		return nil
	}
	return a.SafeToInterrupt(ctx)
}

func unsafe(err error) Result {
	return Result{Outcome: Unsafe, Message: "not safe to interrupt: " + err.Error()}
}

// hostCommand is a program of an interrupt; wants its exit code to be 0.
type hostCommand []string

func systemctl(args ...string) hostCommand { return append(hostCommand{"systemctl"}, args...) }

func (a *Agent) hostRun(ctx context.Context, c hostCommand, stdout *bytes.Buffer) Result {
	text := strings.Join(c, " ")
	if ctx.Err() != nil {
		return Result{Outcome: Failed, Step: text, Message: text + " did not start: the agent was asked to stop"}
	}
	if stdout == nil { // what only looks, and looks again, would drown the rest
		a.logf("running %s", text)
		a.kept.note(text)
	}
	con := &console{out: a.Out, now: a.Now, step: c[0]}
	out, errs := con.stream("out", a.kept.stdout()), con.stream("err", a.kept.stderr())
	cmd := host.Command{Path: c[0], Args: c[1:], Env: []string{"PATH=" + host.SearchPath, "LC_ALL=C"}, Stdout: out, Stderr: errs}
	if stdout != nil {
		cmd.Stdout = stdout
	}
	code, err := a.Runner.Run(ctx, cmd)
	out.flush()
	errs.flush()
	r := Result{Outcome: Failed, Step: text, ExitCode: code, Lines: con.tail}
	switch {
	case err != nil:
		r.Message = err.Error()
	case code != 0:
		r.Message = fmt.Sprintf("%s returned %d", text, code)
	default:
		return Result{Outcome: Succeeded}
	}
	return r
}

// reboot asks for a reboot once for each boot, and is complete only when the boot ID has changed since the first request: exit
// codes, signals and lost pods prove nothing. The boot ID is on disk before the request goes out.
func (a *Agent) reboot(ctx context.Context) Result {
	const name = interruptReboot + "_0"
	if a.marked(name, complete) {
		return Result{Outcome: Succeeded}
	}
	boot, err := a.Boot()
	if err != nil {
		return failed(err)
	}
	before, err := a.pendingBoot(name)
	if err != nil {
		return failed(err)
	}
	if before != "" && before != boot {
		a.logf("the machine has rebooted: boot ID %s before, %s now", before, boot)
		if err := a.mark(name, complete); err != nil {
			return failed(err)
		}
		return Result{Outcome: Succeeded}
	}
	if err := a.safe(ctx); err != nil {
		return unsafe(err)
	}
	if err := a.Root.WriteFile(a.marker(name, pending), []byte(boot+"\n"), 0o644); err != nil {
		return failed(fmt.Errorf("write marker of the reboot: %w", err))
	}
	return a.askForReboot(ctx)
}

// rebootPending is the exit code of a reboot that was asked for and not yet seen. It differs from 0 so that the container does
// not count as done.
const rebootPending = 1

func (a *Agent) askForReboot(ctx context.Context) Result {
	r := a.hostRun(ctx, hostCommand{"reboot"}, nil)
	const sigterm = 128 + 15 // the machine going down ends everything, this command too
	if r.Outcome != Succeeded && r.ExitCode != sigterm {
		return r
	}
	a.pause(ctx, rebootWait)
	return Result{Outcome: Failed, Step: "reboot", ExitCode: rebootPending, Message: "reboot was asked for; the machine is still on its old boot"}
}

func (a *Agent) pause(ctx context.Context, d time.Duration) {
	if a.Wait != nil {
		a.Wait(ctx, d)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

type markerKind string

const (
	complete markerKind = ".complete"
	pending  markerKind = ".pending"
	listed   markerKind = ".list" // what the interrupt is about, as it was at its beginning
)

func (a *Agent) marker(name string, kind markerKind) string {
	return path.Join(a.Settings.StateDir, "interrupts", "flags", a.Settings.Resource.ID, name+string(kind))
}

func (a *Agent) marked(name string, kind markerKind) bool { return a.Root.Exists(a.marker(name, kind)) }

func (a *Agent) mark(name string, kind markerKind) error {
	if err := a.Root.WriteFile(a.marker(name, kind), nil, 0o644); err != nil {
		return fmt.Errorf("write marker of the interrupt: %w", err)
	}
	return nil
}

func (a *Agent) unmark(name string) error {
	if err := a.Root.RemoveAll(a.marker(name, complete)); err != nil {
		return fmt.Errorf("remove marker of the interrupt: %w", err)
	}
	return nil
}

// pendingBoot is the boot ID at the first request; empty if none was made.
func (a *Agent) pendingBoot(name string) (string, error) {
	if !a.marked(name, pending) {
		return "", nil
	}
	data, err := a.Root.ReadFile(a.marker(name, pending))
	if err != nil {
		return "", fmt.Errorf("read marker of the reboot: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
