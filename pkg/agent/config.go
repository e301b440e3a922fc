package agent

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// SchemaVersion is the only version of the package format.
const SchemaVersion = "v1"

// Mode is what an agent is called for: a stage of a package, its check, or an interrupt.
type Mode string

// The modes of package format v1, in the order in which a package usually goes through them, and the interrupt.
const (
	ModeApply         Mode = "apply"
	ModeConfig        Mode = "config"
	ModePostInterrupt Mode = "post-interrupt"
	ModeUpgrade       Mode = "upgrade"
	ModeUninstall     Mode = "uninstall"
	ModeInterrupt     Mode = "interrupt"
)

const checkSuffix = "-check"

// configFile is the package's description, in its copy directory.
const configFile = "config.json"

var workModes = []Mode{ModeApply, ModeConfig, ModePostInterrupt, ModeUpgrade, ModeUninstall}

// Modes are all modes that have steps: each of the five and its check.
func Modes() []Mode {
	var all []Mode
	for _, m := range workModes {
		all = append(all, m, m.Check())
	}
	return all
}

// Check is the mode that checks this one.
func (m Mode) Check() Mode { return m + checkSuffix }

// IsCheck says whether all steps run and only look.
func (m Mode) IsCheck() bool { return strings.HasSuffix(string(m), checkSuffix) }

// Work is the mode without its check.
func (m Mode) Work() Mode { return Mode(strings.TrimSuffix(string(m), checkSuffix)) }

// Config is a package's config.json.
type Config struct {
	SchemaVersion string
	// Name and Version as the package calls itself; the name may differ from the one in the NodeWright.
	Name, Version string
	// ExpectedConfigFiles must be in <copy directory>/configmaps.
	ExpectedConfigFiles []string
	Modes               map[Mode][]Step
	// Warnings are oddities that stop nothing.
	Warnings []Problem
}

// Step is one program of a mode.
type Step struct {
	// Line of config.json where the step begins.
	Line int
	Name string
	// Path below skyhook_dir.
	Path string
	// Arguments; "env:NAME" stands for the value of an environment variable.
	Arguments []string
	// ReturnCodes that mean success.
	ReturnCodes []int
	// OnHost runs the step in the host's root; false runs it in the agent's container.
	OnHost bool
	// HandlesRepeats is the field "idempotence": true means that the step may run any number of times, so it always runs; false
	// means that the agent runs it once for this version.
	HandlesRepeats bool
	// Upgrade steps get the previous and the new version as arguments.
	Upgrade bool
	// Env is set for this step only.
	Env map[string]string
}

// ParseConfig reads and checks config.json. The error is a *[ConfigError] that names every problem with its line and field.
func ParseConfig(data []byte) (*Config, error) {
	var found problems
	root, err := parseDocument(data, &found)
	if err != nil {
		return nil, err
	}
	r := configReader{&found}
	if root.kind != "object" {
		return nil, &ConfigError{[]Problem{{Line: root.line, Text: "must be an object, not " + root.kind}}}
	}
	cfg := &Config{
		SchemaVersion: r.text(root, "", "schema_version"), Name: r.text(root, "", "package_name"),
		Version: r.text(root, "", "package_version"), ExpectedConfigFiles: r.texts(root, "", "expected_config_files"),
	}
	cfg.Modes = r.modes(root, cfg)
	r.rules(root, cfg)
	return cfg, found.err()
}

type configReader struct{ *problems }

// field finds a required field of the given kind.
func (r configReader) field(n *node, at, name, kind string) *node {
	child := n.fields[name]
	switch {
	case child == nil:
		r.add(n.line, join(at, name), "is missing (required: "+kind+")")
		return nil
	case child.kind != kind:
		r.add(child.line, join(at, name), fmt.Sprintf("must be %s, not %s", kind, child.kind))
		return nil
	}
	return child
}

func (r configReader) text(n *node, at, name string) string {
	child := r.field(n, at, name, "string")
	if child == nil {
		return ""
	}
	text, _ := child.scalar.(string)
	return text
}

func (r configReader) flag(n *node, at, name string) bool {
	child := r.field(n, at, name, "boolean")
	if child == nil {
		return false
	}
	value, _ := child.scalar.(bool)
	return value
}

func (r configReader) texts(n *node, at, name string) []string {
	child := r.field(n, at, name, "array")
	if child == nil {
		return nil
	}
	out := make([]string, 0, len(child.items))
	for i, item := range child.items {
		text, ok := item.scalar.(string)
		if !ok {
			r.add(item.line, fmt.Sprintf("%s[%d]", join(at, name), i), "must be string, not "+item.kind)
		}
		out = append(out, text)
	}
	return out
}

func (r configReader) codes(n *node, at, name string) []int {
	child := r.field(n, at, name, "array")
	if child == nil {
		return nil
	}
	if len(child.items) == 0 {
		r.add(child.line, join(at, name), "must have at least one entry, for example [0]")
	}
	var out []int
	for i, item := range child.items {
		number, _ := item.scalar.(json.Number)
		code, err := strconv.Atoi(string(number))
		if err != nil || item.kind != "number" {
			r.add(item.line, fmt.Sprintf("%s[%d]", join(at, name), i), "must be a whole number")
			continue
		}
		out = append(out, code)
	}
	return out
}

func (r configReader) environment(n *node, at string) map[string]string {
	child := n.fields["env"]
	if child == nil || child.kind == "null" {
		return nil
	}
	if child.kind != "object" {
		r.add(child.line, join(at, "env"), "must be object, not "+child.kind)
		return nil
	}
	out := map[string]string{}
	for _, name := range child.names() {
		text, ok := child.fields[name].scalar.(string)
		if !ok {
			r.add(child.fields[name].line, join(at, "env")+"."+name, "must be string, not "+child.fields[name].kind)
		}
		out[name] = text
	}
	return out
}

func (r configReader) modes(root *node, cfg *Config) map[Mode][]Step {
	n := r.field(root, "", "modes", "object")
	if n == nil {
		return nil
	}
	out := map[Mode][]Step{}
	for _, name := range n.names() {
		child, at := n.fields[name], "modes."+name
		if !slices.Contains(Modes(), Mode(name)) {
			r.add(child.line, at, "unknown mode (allowed: "+listModes()+")")
			continue
		}
		if child.kind != "array" {
			r.add(child.line, at, "must be array, not "+child.kind)
			continue
		}
		out[Mode(name)] = r.steps(child, at, cfg)
	}
	return out
}

func listModes() string {
	names := make([]string, 0, len(Modes()))
	for _, m := range Modes() {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

func (r configReader) steps(n *node, at string, cfg *Config) []Step {
	out := make([]Step, 0, len(n.items))
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", at, i)
		if item.kind != "object" {
			r.add(item.line, at, "must be object, not "+item.kind)
			continue
		}
		out = append(out, r.step(item, at, cfg))
	}
	return out
}

var (
	stepName   = lazily(`^[a-zA-Z0-9_\-.]+$`)
	stepFields = []string{"name", "path", "arguments", "returncodes", "on_host", "idempotence", "upgrade_step", "env"}
)

func (r configReader) step(n *node, at string, cfg *Config) Step {
	s := Step{
		Line: n.line, Name: r.text(n, at, "name"), Path: r.text(n, at, "path"), Arguments: r.texts(n, at, "arguments"),
		ReturnCodes: r.codes(n, at, "returncodes"), OnHost: r.flag(n, at, "on_host"),
		HandlesRepeats: r.flag(n, at, "idempotence"), Upgrade: r.flag(n, at, "upgrade_step"), Env: r.environment(n, at),
	}
	for _, name := range n.names() {
		if !slices.Contains(stepFields, name) {
			cfg.Warnings = append(cfg.Warnings, Problem{n.fields[name].line, join(at, name), "unknown field, ignored"})
		}
	}
	r.stepRules(n, at, s)
	return s
}

func (r configReader) stepRules(n *node, at string, s Step) {
	if s.Name != "" && !stepName().MatchString(s.Name) {
		r.add(n.fields["name"].line, at+".name", fmt.Sprintf("%q has other characters than letters, digits, _ - .", s.Name))
	}
	if n.fields["path"] != nil && !insidePackage(s.Path) {
		r.add(n.fields["path"].line, at+".path", fmt.Sprintf("%q must be a relative path below skyhook_dir", s.Path))
	}
	if !s.Upgrade {
		return
	}
	line := n.fields["upgrade_step"].line
	if !strings.HasPrefix(at, "modes.upgrade[") && !strings.HasPrefix(at, "modes.upgrade-check[") {
		r.add(line, at+".upgrade_step", "may be true in upgrade and upgrade-check only")
	}
	if len(s.Arguments) > 0 {
		r.add(line, at+".upgrade_step", "such a step must have no arguments: it gets the previous and the new version")
	}
}

func insidePackage(p string) bool {
	return p != "" && !strings.HasPrefix(p, "/") && !slices.Contains(strings.Split(p, "/"), "..")
}

// rules are those that look at several fields.
func (r configReader) rules(root *node, cfg *Config) {
	if n := root.fields["schema_version"]; n != nil && n.kind == "string" && cfg.SchemaVersion != SchemaVersion {
		r.add(n.line, "schema_version", fmt.Sprintf("%q is unknown (allowed: %q)", cfg.SchemaVersion, SchemaVersion))
	}
	if n := root.fields["package_version"]; n != nil && n.kind == "string" && !semver().MatchString(cfg.Version) {
		r.add(n.line, "package_version", fmt.Sprintf("%q is not a semantic version (example: 1.2.3)", cfg.Version))
	}
	if n := root.fields["package_name"]; n != nil && n.kind == "string" && (cfg.Name == "" || strings.ContainsAny(cfg.Name, "/\x00") || cfg.Name == "." || cfg.Name == "..") {
		r.add(n.line, "package_name", fmt.Sprintf("%q cannot be the name of a file", cfg.Name))
	}
	if n := root.fields["modes"]; n != nil && n.kind == "object" {
		r.modeRules(n, cfg)
	}
}

func (r configReader) modeRules(n *node, cfg *Config) {
	steps, work := 0, 0
	for mode, list := range cfg.Modes {
		steps += len(list)
		if !mode.IsCheck() {
			work++
		}
	}
	if work == 0 {
		r.add(n.line, "modes", "has no mode but checks (required: at least one of apply, config, post-interrupt, upgrade, uninstall)")
	}
	if steps == 0 {
		r.add(n.line, "modes", "has no steps at all")
	}
	for _, mode := range workModes {
		if len(cfg.Modes[mode]) > 0 && len(cfg.Modes[mode.Check()]) == 0 {
			r.add(n.fields[string(mode)].line, "modes."+string(mode), "has steps but no "+string(mode.Check()))
		}
	}
}

// semver is the grammar of semver.org 2.0.0: no leading zeros in numbers, build metadata allowed.
var semver = lazily(semverPattern())

// lazily compiles a pattern at its first use: an agent is started for every stage, and uses few of them.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

func semverPattern() string {
	const number = `(0|[1-9][0-9]*)`
	const prerelease = `(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)`
	return `^` + number + `\.` + number + `\.` + number +
		`(-` + prerelease + `(\.` + prerelease + `)*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`
}

// sameVersion compares the version of a NodeWright (1.2 and v1.2.0 are allowed there) with that of config.json. Build metadata
// does not count.
func sameVersion(manifest, config string) bool {
	return canonical(manifest) == canonical(config)
}

func canonical(v string) string {
	v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "+")
	numbers, pre, _ := strings.Cut(v, "-")
	for strings.Count(numbers, ".") < 2 {
		numbers += ".0"
	}
	return numbers + "-" + pre
}
