//go:build !linux

package pack

import (
	"errors"
	"os/exec"
)

var errLinuxOnly = errors.New("make scratch host: packages can be tried on Linux only")

func enter(*exec.Cmd) error { return errLinuxOnly }

type scratch struct{ root string }

func newScratch(_, _ string) (*scratch, error) { return nil, errLinuxOnly }

func (s *scratch) changes() ([]string, error) { return nil, errLinuxOnly }
