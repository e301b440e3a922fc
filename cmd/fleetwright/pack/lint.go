package pack

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/agent"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// Codes of findings.
const (
	codeConfig      = "PackageConfig"
	codeStepFile    = "StepFile"
	codeInterpreter = "StepInterpreter"
	codeLink        = "NoRegularFile"
	codeIgnored     = "NoEffect"
	codeUninstall   = "NoUninstall"
	codeConfigFile  = "ConfigFile"
)

// lint is everything that is wrong or odd in a package, and what config.json says where it can be read.
func lint(s *source) ([]finding.Finding, *agent.Config) {
	l := linter{s: s}
	f, ok := s.files[configFile]
	if !ok {
		l.add(finding.Error, codeConfig, finding.Finding{File: configFile, Message: "is missing"})
		return l.list, nil
	}
	cfg, err := agent.ParseConfig(f.data)
	var bad *agent.ConfigError
	if errors.As(err, &bad) {
		l.problems(finding.Error, bad.Problems)
	}
	for _, name := range s.links {
		l.add(finding.Error, codeLink, finding.Finding{
			File: name, Message: "is no regular file: its target would be another one in the image and on the host", Allowed: "files and directories",
		})
	}
	if err == nil {
		l.problems(finding.Warning, cfg.Warnings)
		l.modes(cfg)
		l.expected(cfg)
	}
	finding.Sort(l.list)
	return slices.Compact(l.list), cfg
}

type linter struct {
	s    *source
	list []finding.Finding
}

func (l *linter) add(severity finding.Severity, code string, f finding.Finding) {
	f.Severity, f.Code = severity, code
	l.list = append(l.list, f)
}

func (l *linter) problems(severity finding.Severity, list []agent.Problem) {
	for _, p := range list {
		l.add(severity, codeConfig, finding.Finding{File: configFile, Line: p.Line, Field: p.Field, Message: p.Text})
	}
}

func (l *linter) modes(cfg *agent.Config) {
	for _, mode := range agent.Modes() {
		for i, st := range cfg.Modes[mode] {
			l.step(fmt.Sprintf("modes.%s[%d]", mode, i), mode, st)
		}
	}
	if len(cfg.Modes[agent.ModeUninstall]) == 0 {
		l.add(finding.Warning, codeUninstall, finding.Finding{
			File: configFile, Field: "modes.uninstall", Message: "is missing: what the package changes stays on a host that it is taken off",
		})
	}
}

func (l *linter) step(at string, mode agent.Mode, st agent.Step) {
	f, ok := l.s.files[step(st.Path)]
	if !ok {
		l.add(finding.Error, codeStepFile, finding.Finding{
			File: configFile, Line: st.Line, Field: at + ".path", Message: fmt.Sprintf("skyhook_dir has no file %s", st.Path),
			Allowed: nearest(st.Path, l.s),
		})
		return
	}
	if problem := notExecutable(f.data); problem != "" {
		l.add(finding.Error, codeInterpreter, finding.Finding{File: step(st.Path), Line: 1, Message: problem})
	}
	alwaysRuns := mode.IsCheck() || mode == agent.ModeConfig || mode == agent.ModeUpgrade || mode == agent.ModeUninstall
	if !st.HandlesRepeats && alwaysRuns {
		l.add(finding.Warning, codeIgnored, finding.Finding{
			File: configFile, Line: st.Line, Field: at + ".idempotence",
			Message: fmt.Sprintf("false has no effect: the steps of %s run every time", mode),
		})
	}
}

// nearest suggests the file that was meant: one of the same name elsewhere, or of a similar one.
func nearest(wanted string, s *source) string {
	best, distance := "", 4
	for _, name := range s.names() {
		if !within(name, stepsDir) {
			continue
		}
		name = strings.TrimPrefix(name, stepsDir+"/")
		if d := finding.Distance(wanted, name); d < distance {
			best, distance = name, d
		}
		if path.Base(name) == path.Base(wanted) {
			return name
		}
	}
	return best
}

// notExecutable says why the kernel could not start a file; empty if it could.
func notExecutable(data []byte) string {
	first, _, _ := bytes.Cut(data, []byte("\n"))
	switch {
	case bytes.HasPrefix(data, []byte("\x7fELF")):
		return ""
	case len(data) == 0:
		return "is empty"
	case !bytes.HasPrefix(first, []byte("#!")):
		return "has no interpreter line: the kernel cannot start it (example: #!/bin/bash)"
	case bytes.HasSuffix(first, []byte("\r")):
		return `has the line ends of Windows: the kernel would look for an interpreter whose name ends with \r`
	case len(bytes.TrimSpace(first[2:])) == 0:
		return "names no interpreter after #!"
	case !path.IsAbs(string(bytes.Fields(first[2:])[0])):
		return "must name its interpreter by an absolute path (example: #!/usr/bin/env bash)"
	}
	return ""
}

func (l *linter) expected(cfg *agent.Config) {
	for i, name := range cfg.ExpectedConfigFiles {
		if _, baked := l.s.files[path.Join(configDir, name)]; baked {
			l.add(finding.Warning, codeConfigFile, finding.Finding{
				File: configFile, Field: fmt.Sprintf("expected_config_files[%d]", i),
				Message: fmt.Sprintf("%s is part of the package itself: that a NodeWright sets it is not checked", name),
			})
		}
	}
}
