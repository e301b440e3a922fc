// Package realnode runs machines that are real Kubernetes nodes, on one Linux machine and as root: each has Kubernetes' kubelet,
// containerd, runc and a file system of its own in place of /, and can be rebooted, or lose its power at any moment. Of the
// product it imports only what makes images.
//
// Everything lives in namespaces, so that nothing is left behind whatever way a run ends, and no address, mount or process of
// the machine below is touched:
//
//	go test ── Main ──► sandbox: PID 1, no network but loopback and a bridge
//	                      └─ the tests: control plane, registry, git server, reconciler
//	                           ├─ machine node-1: PID 1, own mounts, own eth0 ── containerd, kubelet, containers
//	                           └─ machine node-2
//
// A machine's power is its PID 1: killing it makes the kernel kill everything on it, and its tmpfs at /run and its mounts are
// gone, as with a real loss of power. Only its directory, its disk, stays. Programs come from the machine below: its /usr is the
// machine's /usr, read-only. What cannot be had twice in one kernel is made to look so: the boot ID, the kernel's command line (the
// machine's boot loader puts it together from /etc/default/grub.d), and systemd (a script that keeps the states of units).
//
// It was run on a machine with cgroups of version 1; version 2 is written for, and was not yet met.
//
// Cgroups are the one thing of the kernel that no namespace ends; a later run removes what an earlier one left.
package realnode
