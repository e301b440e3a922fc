package agent

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const goodStep = `{"name":"s","path":"s.sh","arguments":[],"returncodes":[0],"on_host":true,"idempotence":true,"upgrade_step":false,"env":{}}`

// configJSON is a valid config.json whose modes are given.
func configJSON(modes string) string {
	return `{"schema_version":"v1","package_name":"tuning","package_version":"1.2.3","expected_config_files":[],
"modes":{` + modes + `}}`
}

// fullConfig uses every field.
const fullConfig = `{
  "schema_version": "v1", "package_name": "nvidia_tuned", "package_version": "0.9.0-rc.1+build.7",
  "expected_config_files": ["accelerator"], "root_dir": "root_dir", "something": {"else": [1, null]},
  "modes": {
    "apply": [{"name": "one", "path": "steps/one.sh", "arguments": ["a", "env:B"], "returncodes": [0, 3],
               "on_host": true, "idempotence": false, "upgrade_step": false, "env": {"X": "1"}, "requires_interrupt": true}],
    "apply-check": [` + goodStep + `],
    "upgrade": [{"name":"u","path":"u.sh","arguments":[],"returncodes":[0],"on_host":false,"idempotence":true,"upgrade_step":true}],
    "upgrade-check": [` + goodStep + `],
    "uninstall": []
  }
}`

func TestParseConfig(t *testing.T) {
	cfg, err := ParseConfig([]byte(fullConfig))
	require.NoError(t, err)
	require.Equal(t, "nvidia_tuned 0.9.0-rc.1+build.7", cfg.Name+" "+cfg.Version)
	require.Equal(t, []string{"accelerator"}, cfg.ExpectedConfigFiles)
	require.Equal(t, []Step{{
		Name: "one", Path: "steps/one.sh", Arguments: []string{"a", "env:B"}, ReturnCodes: []int{0, 3}, OnHost: true,
		Env: map[string]string{"X": "1"}, Line: 5,
	}}, cfg.Modes[ModeApply])
	require.True(t, cfg.Modes[ModeUpgrade][0].Upgrade)
	require.Equal(t, []Problem{{6, "modes.apply[0].requires_interrupt", "unknown field, ignored"}}, cfg.Warnings)
}

type badConfig struct{ json, want string }

// badConfigs are texts with the exact error of each.
func badConfigs() map[string]badConfig {
	both := `"apply":[` + goodStep + `],"apply-check":[` + goodStep + `]`
	change := func(old, to string) string { return strings.Replace(configJSON(both), old, to, 1) }
	return map[string]badConfig{
		"no JSON":         {"{\n\"a\": tru }", "config.json: line 2: not JSON: invalid character ' ' in literal true (expecting 'e')"},
		"cut short":       {"{\n\"a\": 1", "config.json: line 2: the JSON text ends too early"},
		"text after":      {configJSON(both) + "\n{}", "config.json: line 3: more text after the end of the JSON object"},
		"no object":       {"[]", "config.json: line 1: must be an object, not array"},
		"too deep":        {strings.Repeat("[", 40), "config.json: line 1: not JSON: nested deeper than 32 levels"},
		"schema version":  {change(`"v1"`, `"v2"`), `config.json: line 1: schema_version: "v2" is unknown (allowed: "v1")`},
		"version":         {change("1.2.3", "01.2.3"), `config.json: line 1: package_version: "01.2.3" is not a semantic version (example: 1.2.3)`},
		"package name":    {change(`"tuning"`, `"a/b"`), `config.json: line 1: package_name: "a/b" cannot be the name of a file`},
		"missing":         {change(`"package_name":"tuning",`, ""), "config.json: line 1: package_name: is missing (required: string)"},
		"wrong type":      {change(`"tuning"`, "7"), "config.json: line 1: package_name: must be string, not number"},
		"given twice":     {change(`"tuning"`, `"tuning","package_name":"x"`), "config.json: line 1: package_name: is given twice"},
		"unknown mode":    {change(`"apply"`, `"aply":[],"apply"`), "config.json: line 2: modes.aply: unknown mode (allowed: apply, apply-check, config, config-check, post-interrupt, post-interrupt-check, upgrade, upgrade-check, uninstall, uninstall-check)"},
		"mode no array":   {change(`"apply"`, `"config":{},"apply"`), "config.json: line 2: modes.config: must be array, not object"},
		"step no object":  {change(`"apply":[`, `"apply":[1,`), "config.json: line 2: modes.apply[0]: must be object, not number"},
		"step field":      {change(`"name":"s",`, ""), "config.json: line 2: modes.apply[0].name: is missing (required: string)"},
		"step name":       {change(`"name":"s"`, `"name":"a b"`), `config.json: line 2: modes.apply[0].name: "a b" has other characters than letters, digits, _ - .`},
		"path out":        {change("s.sh", "../s.sh"), `config.json: line 2: modes.apply[0].path: "../s.sh" must be a relative path below skyhook_dir`},
		"no codes":        {change("[0]", "[]"), "config.json: line 2: modes.apply[0].returncodes: must have at least one entry, for example [0]"},
		"odd code":        {change("[0]", "[0.5]"), "config.json: line 2: modes.apply[0].returncodes[0]: must be a whole number"},
		"odd argument":    {change(`"arguments":[]`, `"arguments":[1]`), "config.json: line 2: modes.apply[0].arguments[0]: must be string, not number"},
		"odd environment": {change(`"env":{}`, `"env":{"A":1}`), "config.json: line 2: modes.apply[0].env.A: must be string, not number"},
		"no check":        {configJSON(`"apply":[` + goodStep + `]`), "config.json: line 2: modes.apply: has steps but no apply-check"},
		"empty":           {configJSON(`"apply":[]`), "config.json: line 2: modes: has no steps at all"},
		"checks only": {configJSON(`"apply-check":[` + goodStep + `]`),
			"config.json: line 2: modes: has no mode but checks (required: at least one of apply, config, post-interrupt, upgrade, uninstall)"},
		"upgrade step in apply": {change(`"upgrade_step":false`, `"upgrade_step":true`),
			"config.json: line 2: modes.apply[0].upgrade_step: may be true in upgrade and upgrade-check only"},
		"two at once": {change(`"v1","package_name":"tuning"`, `1,"package_name":null`),
			"config.json: line 1: schema_version: must be string, not number; line 1: package_name: must be string, not null"},
	}
}

func TestParseConfigNamesEveryProblem(t *testing.T) {
	for name, c := range badConfigs() {
		t.Run(name, func(t *testing.T) {
			_, err := ParseConfig([]byte(c.json))
			require.EqualError(t, err, c.want)
		})
	}
}

func TestSameVersion(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"1.2.3", "1.2.3"}: true, {"v1.2", "1.2.0"}: true, {"1", "1.0.0"}: true, {"1.2.3", "1.2.3+b"}: true,
		{"1.2.3", "1.2.4"}: false, {"1.2.3-rc1", "1.2.3"}: false, {"1.2-rc1", "1.2.0-rc1"}: true,
	} {
		require.Equal(t, want, sameVersion(pair[0], pair[1]), pair)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(configJSON(`"apply":[` + goodStep + `],"apply-check":[` + goodStep + `]`)))
	f.Add([]byte(`{"modes":{"apply":[{}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := ParseConfig(data)
		if err == nil {
			require.Equal(t, SchemaVersion, cfg.SchemaVersion)
			require.Regexp(t, semver(), cfg.Version)
		}
	})
}

func TestFlagNamesAreThoseOfTheNodeWrightAgent(t *testing.T) {
	require.Equal(t, "shellscript_run.sh_WydhcHBseSddX1swXQ==",
		flagName(Step{Path: "shellscript_run.sh", Arguments: []string{"apply"}, ReturnCodes: []int{0}}))
	for text, want := range map[string]string{
		`it's`: `"it's"`, `a'b"c`: `'a\'b"c'`, "a\\b\n\t\r": `'a\\b\n\t\r'`, "ä€": "'ä€'", "\x01\u200b\U000e0001": `'\x01\u200b\U000e0001'`,
	} {
		require.Equal(t, want, pythonText(text))
	}
	require.Equal(t, "['a', 'b']_[0, 3]", pythonTexts([]string{"a", "b"})+"_"+pythonNumbers([]int{0, 3}))
	long := flagName(Step{Path: "s.sh", Arguments: []string{strings.Repeat("x", 300)}, ReturnCodes: []int{0}})
	require.Regexp(t, "^sha256-[0-9a-f]{64}$", long)
}

// Two steps share a flag only if they are the same step, and no flag leaves its directory.
func FuzzFlagName(f *testing.F) {
	f.Add("steps/a.sh", "apply", 0, "steps/a.sh", "apply_check", 0)
	f.Add("a", "it's \"\\\x00\u0100", -1, "a", "it's \"\\\x00\u0101", -1)
	f.Add("a", "', '", 0, "a", "\\', \\'", 0)
	f.Fuzz(func(t *testing.T, p1, arg1 string, code1 int, p2, arg2 string, code2 int) {
		for _, text := range []string{p1, arg1, p2, arg2} {
			if !utf8.ValidString(text) {
				t.Skip("JSON has no such text")
			}
		}
		one := flagName(Step{Path: p1, Arguments: []string{arg1}, ReturnCodes: []int{code1}})
		two := flagName(Step{Path: p2, Arguments: []string{arg2}, ReturnCodes: []int{code2}})
		for _, part := range strings.Split(one, "/") {
			require.LessOrEqual(t, len(part), maxFlag)
		}
		if insidePackage(p1) {
			require.True(t, strings.HasPrefix(path.Join("/flags", one), "/flags/"), one)
		}
		same := p1 == p2 && arg1 == arg2 && code1 == code2
		require.Equal(t, same, one == two, "%q %q", one, two)
	})
}

func TestParseArgs(t *testing.T) {
	inv, err := ParseArgs([]string{"apply", "/host", "/var/lib/skyhook/a/p"})
	require.NoError(t, err)
	require.Equal(t, Invocation{Mode: ModeApply, Root: "/host", CopyDir: "/var/lib/skyhook/a/p"}, inv)
	inv, err = ParseArgs([]string{"interrupt", "/c", "e30="})
	require.NoError(t, err)
	require.Equal(t, Invocation{Mode: ModeInterrupt, Root: "/root", CopyDir: "/c", Interrupt: "e30="}, inv)
	for want, args := range map[string][]string{
		"no mode (usage: fleetwright-agent MODE ROOT COPY_DIR)": {},
		`unknown mode "aply" (allowed: apply, apply-check, config, config-check, post-interrupt, post-interrupt-check, upgrade, upgrade-check, uninstall, uninstall-check, interrupt)`: {"aply", "/a", "/b"},
		"mode apply takes 2 arguments after it, not 3":     {"apply", "/a", "/b", "/c"},
		"mode interrupt takes 3 arguments after it, not 0": {"interrupt"},
		`COPY_DIR "b" must be an absolute path`:            {"apply", "/a", "b"},
	} {
		_, err := ParseArgs(args)
		require.EqualError(t, err, want)
		var usage *UsageError
		require.ErrorAs(t, err, &usage)
	}
}

func TestReadSettings(t *testing.T) {
	s, err := ReadSettings([]string{
		"SKYHOOK_RESOURCE_ID=a-b-0f1e-12_nvidia-tuned_0.9.0", "FLEETWRIGHT_ROUND=12", "FLEETWRIGHT_MACHINE_ID=m", "COPY_RESOLV=true",
		"COPY_RESOLV=false", "SKYHOOK_ROOT_DIR=/var/lib/skyhook/a",
	})
	require.NoError(t, err)
	require.Equal(t, Resource{ID: "a-b-0f1e-12_nvidia-tuned_0.9.0", Owner: "a-b-0f1e", Number: 12, Package: "nvidia-tuned", Version: "0.9.0"}, s.Resource)
	require.Equal(t, int64(12), *s.Round)
	require.False(t, s.CopyResolv, "the last value counts")
	require.True(t, s.WriteLogs)
	require.Equal(t, "/var/lib/skyhook/a /var/log/skyhook", s.StateDir+" "+s.LogDir)

	const shape = " must be <NodeWright>-<uid>-<number>_<package>_<version>"
	for want, env := range map[string]string{
		`SKYHOOK_RESOURCE_ID ""` + shape:                               "X=1",
		`SKYHOOK_RESOURCE_ID "a-1_b"` + shape:                          "SKYHOOK_RESOURCE_ID=a-1_b",
		`SKYHOOK_RESOURCE_ID "a-x_b_1"` + shape + `: "x" is no number`: "SKYHOOK_RESOURCE_ID=a-x_b_1",
		`SKYHOOK_RESOURCE_ID "../a-1_b_1"` + shape:                     "SKYHOOK_RESOURCE_ID=../a-1_b_1",
		`FLEETWRIGHT_ROUND "x" must be a whole number`:                 "FLEETWRIGHT_ROUND=x",
		`SKYHOOK_ROOT_DIR "var" must be an absolute path`:              "SKYHOOK_ROOT_DIR=var",
		`FLEETWRIGHT_GRACE "1m" must be a whole number of seconds`:     "FLEETWRIGHT_GRACE=1m",
	} {
		_, err := ReadSettings([]string{env})
		require.EqualError(t, err, want)
	}
}

// gracefulShutdown of a package is its step's, but for what the agent needs to end it and to report.
func TestStepGetsTheGraceOfItsPod(t *testing.T) {
	for env, want := range map[string]string{
		"X=1": "20s 5s", "FLEETWRIGHT_GRACE=600": "9m50s 5s", "FLEETWRIGHT_GRACE=8": "4s 2s", "FLEETWRIGHT_GRACE=0": "0s 0s",
	} {
		s, err := ReadSettings([]string{"SKYHOOK_RESOURCE_ID=a-1_b_1", env})
		require.NoError(t, err)
		grace, kill := s.StepGrace()
		require.Equal(t, want, grace.String()+" "+kill.String(), env)
	}
}

func TestTerminationMessageFits(t *testing.T) {
	r := Result{Stage: ModeApply, Outcome: Failed, Step: "s", ExitCode: 3, Message: "step s returned 3", Lines: []string{"first"}}
	for range 20 {
		r.Lines = append(r.Lines, strings.Repeat("é\"", 150))
	}
	r.Lines = append(r.Lines, "last")
	got := string(r.TerminationMessage())
	require.LessOrEqual(t, len(got), MaxMessage)
	require.True(t, strings.HasPrefix(got, `{"stage":"apply","outcome":"failed","step":"s","exitCode":3,"message":"step s returned 3","lines":["`), got)
	require.Contains(t, got, `"last"]`)
	require.NotContains(t, got, "first")
	r.Message = strings.Repeat("m", 9000)
	require.LessOrEqual(t, len(r.TerminationMessage()), MaxMessage)
}
