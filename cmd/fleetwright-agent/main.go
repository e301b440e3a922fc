// Command fleetwright-agent executes one stage of a package, or one interrupt, on the host whose root is mounted in its
// container. See pkg/agent.
//
//	fleetwright-agent MODE ROOT COPY_DIR
//	fleetwright-agent interrupt ROOT COPY_DIR BASE64
//	fleetwright-agent --version
//
// Exit codes: 0 done, 1 failed or refused, 2 wrong command line or environment, 3 an interrupt was not begun, because the node is
// not safe to interrupt now.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
	"github.com/fleetwright/fleetwright/pkg/agent"
)

// terminationLog is where the kubelet reads a container's termination message.
const terminationLog = "/dev/termination-log"

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println(version())
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := program{terminationLog: terminationLog, out: os.Stdout, err: os.Stderr}.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

// program is where an execution writes to.
type program struct {
	terminationLog string
	out, err       io.Writer
}

func (p program) run(ctx context.Context, args []string) int {
	inv, err := agent.ParseArgs(args)
	if err != nil {
		return p.usageError(inv, err)
	}
	settings, err := agent.ReadSettings(os.Environ())
	if err != nil {
		return p.usageError(inv, err)
	}
	root := host.Root(inv.Root)
	bootFile := host.BootIDFile
	if file := os.Getenv("FLEETWRIGHT_BOOT_ID_FILE"); file != "" { // for test machines whose reboot is simulated
		bootFile = file
	}
	grace, kill := settings.StepGrace()
	a := &agent.Agent{
		Root: root, Runner: host.Exec{Root: root, Grace: grace, Kill: kill}, Settings: settings,
		Boot: func() (string, error) { return host.BootID(bootFile) }, Now: time.Now, Out: p.out,
	}
	if value := os.Getenv(agent.NodeCheckVariable); value != "" {
		check, err := agent.ParseNodeCheck(value)
		if err != nil {
			return p.usageError(inv, err)
		}
		a.SafeToInterrupt = func(ctx context.Context) error { return look(ctx, check) }
	}
	r := a.Run(ctx, inv)
	p.terminate(r)
	return exitCode(r.Outcome)
}

// look reads token and CA at the last moment: the kubelet renews them.
func look(ctx context.Context, check agent.NodeCheck) error {
	server, err := agent.InCluster(os.Environ(), agent.CredentialsDir)
	if err != nil {
		return err
	}
	return check.Look(ctx, server)
}

func exitCode(o agent.Outcome) int {
	switch o {
	case agent.Succeeded:
		return 0
	case agent.Unsafe:
		return 3
	}
	return 1
}

func (p program) usageError(inv agent.Invocation, err error) int {
	fmt.Fprintln(p.err, "fleetwright-agent:", err)
	p.terminate(agent.Result{Stage: inv.Mode, Outcome: agent.Failed, ExitCode: 2, Message: err.Error()})
	return 2
}

// terminate writes the result for the kubelet. Outside a pod there is no such file, and the log says it all.
func (p program) terminate(r agent.Result) {
	f, err := os.OpenFile(p.terminationLog, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return
	}
	_, err = f.Write(r.TerminationMessage())
	if err = errors.Join(err, f.Close()); err != nil {
		fmt.Fprintln(p.err, "fleetwright-agent: write termination message:", err)
	}
}
