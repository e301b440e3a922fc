//go:build !linux

package cluster

import "syscall"

// childAttr has nothing to add: the child ends with its standard input.
func childAttr() *syscall.SysProcAttr { return nil }
