package agent

import (
	"fmt"
	"strings"
)

// shown are the variables of the banner: the agent's own. Others may hold secrets of a package.
var shown = []string{
	"SKYHOOK_RESOURCE_ID", "SKYHOOK_ROOT_DIR", "SKYHOOK_LOG_DIR", "SKYHOOK_NODE_ORDER", "SKYHOOK_AGENT_WRITE_LOGS", "COPY_RESOLV",
	"FLEETWRIGHT_MACHINE_ID", "FLEETWRIGHT_ROUND", "FLEETWRIGHT_FRESH", "FLEETWRIGHT_GRACE",
}

// banner prints what the agent was started with, in the three blocks that tools around NodeWright look for.
func (a *Agent) banner(inv Invocation) {
	rule := strings.Repeat("-", 40)
	var env []string
	for _, name := range shown {
		if value, ok := environment(a.Settings.Environ).lookup(name); ok {
			env = append(env, name+": "+value)
		}
	}
	a.logf("%s", strings.Join([]string{
		rule, "CLI CONFIGURATION", fmt.Sprintf("mode: %s\nroot_mount: %s\ncopy_dir: %s", inv.Mode, inv.Root, inv.CopyDir),
		rule, "ENV CONFIGURATION", strings.Join(env, "\n"),
		rule, "Directory CONFIGURATION",
		fmt.Sprintf("flags: %s/flags\nhistory: %s/history\nlogs: %s", a.Settings.StateDir, a.Settings.StateDir, a.Settings.LogDir), rule,
	}, "\n"))
}
