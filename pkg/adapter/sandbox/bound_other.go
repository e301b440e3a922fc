//go:build !linux

package sandbox

import "errors"

func bound(Limits) error { return errors.New("limits of a process are set on Linux only") }
