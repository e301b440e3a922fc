package foreign

import "syscall"

// ChildAttr makes the kernel kill the child when we die, however we die, and keeps Ctrl-C for us alone: the child must
// outlive our own orderly end.
func ChildAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
