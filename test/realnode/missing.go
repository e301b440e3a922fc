//go:build linux

package realnode

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// programs are what the machine below has to have, and the Debian package of each.
var programs = []struct{ name, pkg string }{
	{"containerd", "containerd"}, {"containerd-shim-runc-v2", "containerd"}, {"runc", "runc"}, {"ip", "iproute2"},
	{"busybox", "busybox-static"}, {"nsenter", "util-linux"}, {"mount", "mount"}, {"sysctl", "procps"},
}

// Missing says in one sentence why no machine can run here; empty: it can.
func Missing() string {
	if os.Geteuid() != 0 {
		return "real nodes need root: run as root, for example with sudo -E"
	}
	var names, packages []string
	for _, p := range programs {
		if _, err := exec.LookPath(p.name); err != nil {
			names = append(names, p.name)
			if !slices.Contains(packages, p.pkg) {
				packages = append(packages, p.pkg)
			}
		}
	}
	if len(names) > 0 {
		return fmt.Sprintf("real nodes need %s: apt-get install --no-install-recommends %s", strings.Join(names, ", "), strings.Join(packages, " "))
	}
	if !static("busybox") {
		return "real nodes need a static busybox: apt-get install busybox-static"
	}
	for _, dir := range []string{"/bin", "/sbin", "/lib"} {
		if target, err := os.Readlink(dir); err != nil || !strings.HasPrefix(strings.TrimPrefix(target, "/"), "usr/") {
			return "real nodes need a distribution whose " + dir + " is below /usr"
		}
	}
	return ""
}

// static says that a program needs no libraries: it is all that an image holds.
func static(name string) bool {
	path, err := exec.LookPath(name)
	if err != nil {
		return false
	}
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	return !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}
