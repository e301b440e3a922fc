//go:build !linux

package foreign

import "syscall"

// ChildAttr has nothing to add where the kernel does not end children with their parent.
func ChildAttr() *syscall.SysProcAttr { return nil }
