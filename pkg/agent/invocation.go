package agent

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Invocation is the command line: MODE ROOT COPY_DIR, or interrupt ROOT COPY_DIR BASE64. Without ROOT it is /root.
type Invocation struct {
	Mode Mode
	// Root is where the host's root is mounted.
	Root string
	// CopyDir is the host's path of the package's files.
	CopyDir string
	// Interrupt is base64 of {"type", "services"}; only with ModeInterrupt.
	Interrupt string
}

// UsageError is a wrong command line or environment: exit code 2.
type UsageError struct{ Problem string }

func (e *UsageError) Error() string { return e.Problem }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// DefaultRoot is the mount of the host's root if the command line names none.
const DefaultRoot = "/root"

// ParseArgs reads the command line without the program's name.
func ParseArgs(args []string) (Invocation, error) {
	if len(args) == 0 {
		return Invocation{}, usage("no mode (usage: fleetwright-agent MODE ROOT COPY_DIR)")
	}
	inv := Invocation{Mode: Mode(args[0]), Root: DefaultRoot}
	if inv.Mode != ModeInterrupt && !slices.Contains(Modes(), inv.Mode) {
		return Invocation{}, usage("unknown mode %q (allowed: %s, interrupt)", args[0], listModes())
	}
	rest, wanted := args[1:], 2
	if inv.Mode == ModeInterrupt {
		wanted = 3
	}
	switch len(rest) {
	case wanted:
		inv.Root, rest = rest[0], rest[1:]
	case wanted - 1: // the older form, without ROOT
	default:
		return Invocation{}, usage("mode %s takes %d arguments after it, not %d", inv.Mode, wanted, len(rest))
	}
	inv.CopyDir = rest[0]
	if inv.Mode == ModeInterrupt {
		inv.Interrupt = rest[1]
	}
	for name, p := range map[string]string{"ROOT": inv.Root, "COPY_DIR": inv.CopyDir} {
		if !path.IsAbs(p) {
			return Invocation{}, usage("%s %q must be an absolute path", name, p)
		}
	}
	return inv, nil
}

// Settings come from the environment. The names with SKYHOOK are NVIDIA's contract, those with FLEETWRIGHT ours.
type Settings struct {
	// StateDir holds flags, history and markers on the host: SKYHOOK_ROOT_DIR, default /etc/skyhook.
	StateDir string
	// LogDir holds the logs of steps on the host: SKYHOOK_LOG_DIR, default /var/log/skyhook.
	LogDir string
	// WriteLogs: SKYHOOK_AGENT_WRITE_LOGS, default true.
	WriteLogs bool
	// CopyResolv copies the container's /etc/resolv.conf to the host: COPY_RESOLV, default false.
	CopyResolv bool
	// Resource is SKYHOOK_RESOURCE_ID. Required.
	Resource Resource
	// MachineID of the machine this execution is for: FLEETWRIGHT_MACHINE_ID. Empty: any machine.
	MachineID string
	// Round of the rollout: FLEETWRIGHT_ROUND, or nil: no fencing by round.
	Round *int64
	// Fresh clears the flags of the package, of every version, before its steps, once in a round: FLEETWRIGHT_FRESH, default false.
	Fresh bool
	// CheckFirst asks whether the wanted state is there already: nothing on the host is changed, nothing is stored.
	// FLEETWRIGHT_CHECK_FIRST, default false.
	CheckFirst bool
	// Grace is the time between the request to stop and the end by force, as the pod has it: FLEETWRIGHT_GRACE in whole seconds,
	// default 30 as in Kubernetes.
	Grace time.Duration
	// Environ is the whole environment, handed on to steps.
	Environ []string
}

// Resource is SKYHOOK_RESOURCE_ID: <NodeWright>-<uid>-<number>_<package>_<version>.
type Resource struct {
	// ID as given; markers of interrupts are kept by it.
	ID string
	// Owner is <NodeWright>-<uid>: rounds count within it.
	Owner string
	// Number is the round, or the generation where NVIDIA's operator starts the agent.
	Number int64
	// Package and Version as in the NodeWright.
	Package, Version string
}

// ReadSettings reads the environment, given as NAME=value.
func ReadSettings(environ []string) (Settings, error) {
	env := environment(environ)
	s := Settings{
		StateDir: env.or("SKYHOOK_ROOT_DIR", "/etc/skyhook"), LogDir: env.or("SKYHOOK_LOG_DIR", "/var/log/skyhook"),
		MachineID: env.or("FLEETWRIGHT_MACHINE_ID", ""), Environ: environ,
	}
	for _, flag := range []struct {
		name     string
		fallback string
		to       *bool
	}{
		{"SKYHOOK_AGENT_WRITE_LOGS", "true", &s.WriteLogs}, {"COPY_RESOLV", "false", &s.CopyResolv}, {"FLEETWRIGHT_FRESH", "false", &s.Fresh},
		{"FLEETWRIGHT_CHECK_FIRST", "false", &s.CheckFirst},
	} {
		*flag.to = strings.EqualFold(env.or(flag.name, flag.fallback), "true")
	}
	for name, dir := range map[string]string{"SKYHOOK_ROOT_DIR": s.StateDir, "SKYHOOK_LOG_DIR": s.LogDir} {
		if !path.IsAbs(dir) {
			return Settings{}, usage("%s %q must be an absolute path", name, dir)
		}
	}
	if round := env.or("FLEETWRIGHT_ROUND", ""); round != "" {
		n, err := strconv.ParseInt(round, 10, 64)
		if err != nil || n < 0 {
			return Settings{}, usage("FLEETWRIGHT_ROUND %q must be a whole number", round)
		}
		s.Round = &n
	}
	grace, err := strconv.ParseUint(env.or("FLEETWRIGHT_GRACE", "30"), 10, 31)
	if err != nil {
		return Settings{}, usage("FLEETWRIGHT_GRACE %q must be a whole number of seconds", env.or("FLEETWRIGHT_GRACE", ""))
	}
	s.Grace = time.Duration(grace) * time.Second
	s.Resource, err = parseResource(env.or("SKYHOOK_RESOURCE_ID", ""))
	return s, err
}

// maxReserve is what the agent keeps of the pod's grace for itself: to end the step's processes and to say what came of it.
const maxReserve = 10 * time.Second

// StepGrace is how long a running step may go on after the request to stop: the pod's grace without a reserve of ten seconds, or of
// half of it where it is shorter than twenty. Kill is how long its processes then have between SIGTERM and SIGKILL.
func (s Settings) StepGrace() (grace, kill time.Duration) {
	reserve := min(maxReserve, s.Grace/2)
	return s.Grace - reserve, reserve / 2
}

func parseResource(id string) (Resource, error) {
	const shape = "<NodeWright>-<uid>-<number>_<package>_<version>"
	parts := strings.Split(id, "_")
	if len(parts) != 3 || slices.Contains(parts, "") || strings.Contains(id, "/") {
		return Resource{}, usage("SKYHOOK_RESOURCE_ID %q must be %s", id, shape)
	}
	cut := strings.LastIndex(parts[0], "-")
	if cut < 1 {
		return Resource{}, usage("SKYHOOK_RESOURCE_ID %q must be %s", id, shape)
	}
	number, err := strconv.ParseUint(parts[0][cut+1:], 10, 63)
	if err != nil {
		return Resource{}, usage("SKYHOOK_RESOURCE_ID %q must be %s: %q is no number", id, shape, parts[0][cut+1:])
	}
	return Resource{ID: id, Owner: parts[0][:cut], Number: int64(number), Package: parts[1], Version: parts[2]}, nil
}

type environment []string

// lookup finds a variable; the last of several counts, as for programs.
func (e environment) lookup(name string) (string, bool) {
	for _, entry := range slices.Backward(e) {
		if key, value, ok := strings.Cut(entry, "="); ok && key == name {
			return value, true
		}
	}
	return "", false
}

func (e environment) or(name, fallback string) string {
	if value, ok := e.lookup(name); ok && value != "" {
		return value
	}
	return fallback
}
