package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
	"github.com/fleetwright/fleetwright/pkg/adapter/host/hosttest"
)

// asAgent makes this test binary be the program.
const asAgent = "FLEETWRIGHT_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const (
	state  = "/var/lib/skyhook/gpu"
	copied = state + "/tuning-1.2.3-0f1e-5"
)

// packageJSON is a good config.json: one step of each mode that is named, which notes that it ran.
func packageJSON(modes ...string) string {
	text := map[string]any{}
	for _, mode := range modes {
		text[mode] = []map[string]any{{
			"name": "note", "path": "note.sh", "arguments": []string{mode}, "returncodes": []int{0}, "on_host": true, "idempotence": true,
			"upgrade_step": false, "env": map[string]string{},
		}}
	}
	data, err := json.Marshal(map[string]any{
		"schema_version": "v1", "package_name": "tuning", "package_version": "1.2.3", "expected_config_files": []string{}, "modes": text,
	})
	if err != nil {
		panic(err)
	}
	return string(data)
}

// newHost is a scratch host with the package on it.
func newHost(t *testing.T, config string) host.Root {
	root := hosttest.Root(t)
	require.NoError(t, root.WriteFile(copied+"/config.json", []byte(config), 0o644))
	require.NoError(t, root.WriteFile(copied+"/skyhook_dir/note.sh", []byte("#!/bin/sh\necho \"$1\" >>/ran\n"), 0o644))
	return root
}

func process(root host.Root, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append([]string{
		asAgent + "=1", "SKYHOOK_RESOURCE_ID=gpu-0f1e-5_tuning_1.2.3", "SKYHOOK_ROOT_DIR=" + state, "SKYHOOK_LOG_DIR=/var/log/skyhook/gpu",
		"FLEETWRIGHT_ROUND=5", "FLEETWRIGHT_MACHINE_ID=" + hosttest.MachineID,
	}, env...)
	return cmd
}

func ran(root host.Root) string {
	data, err := root.ReadFile("/ran")
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(data)), " ")
}

// What the agent does not understand, or what does not fit together, ends with a sentence and a code that is not 0, and no step
// has run: a package that did nothing must never count as done.
func TestNothingWrongIsASuccess(t *testing.T) {
	good := packageJSON("apply", "apply-check")
	in := func(old, to string) string { return strings.Replace(good, old, to, 1) }
	b64 := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for name, c := range map[string]struct {
		config string
		env    string
		args   []string // ROOT stands for the host's
		code   int
		want   string
	}{
		"unknown mode":         {good, "", []string{"aply", "ROOT", copied}, 2, `unknown mode "aply" (allowed: apply, apply-check, config,`},
		"mode in capitals":     {good, "", []string{"APPLY", "ROOT", copied}, 2, `unknown mode "APPLY"`},
		"no mode":              {good, "", nil, 2, "no mode (usage: fleetwright-agent MODE ROOT COPY_DIR)"},
		"too many arguments":   {good, "", []string{"apply", "ROOT", copied, "more"}, 2, "mode apply takes 2 arguments after it, not 3"},
		"relative copy":        {good, "", []string{"apply", "ROOT", "copy"}, 2, `COPY_DIR "copy" must be an absolute path`},
		"no copy":              {good, "", []string{"apply", "ROOT", "/nowhere"}, 1, "read package: no config.json in /nowhere: no such file or directory"},
		"schema version":       {in(`"v1"`, `"v2"`), "", nil, 1, `schema_version: "v2" is unknown (allowed: "v1")`},
		"latest":               {in(`"v1"`, `"latest"`), "", nil, 1, `schema_version: "latest" is unknown (allowed: "v1")`},
		"no schema version":    {in(`"schema_version":"v1"`, `"x":1`), "", nil, 1, "schema_version: is missing"},
		"no JSON":              {"schema_version: v1", "", nil, 1, "config.json: line 1: not JSON"},
		"empty":                {"", "", nil, 1, "config.json: line 1: the JSON text ends too early"},
		"another version":      {good, "SKYHOOK_RESOURCE_ID=gpu-0f1e-5_tuning_1.3.0", nil, 1, "the NodeWright asks for version 1.3.0 of tuning, but the image holds tuning 1.2.3"},
		"a prerelease":         {good, "SKYHOOK_RESOURCE_ID=gpu-0f1e-5_tuning_1.2.3-rc1", nil, 1, "the NodeWright asks for version 1.2.3-rc1 of tuning, but the image holds tuning 1.2.3"},
		"step file missing":    {in("note.sh", "gone.sh"), "", nil, 1, "modes.apply[0].path: skyhook_dir has no file gone.sh"},
		"no check":             {packageJSON("apply"), "", nil, 1, "modes.apply: has steps but no apply-check"},
		"no steps at all":      {packageJSON(), "", nil, 1, "modes: has no steps at all"},
		"checks only":          {packageJSON("apply-check"), "", nil, 1, "modes: has no mode but checks"},
		"unknown mode of it":   {in(`"apply":`, `"aply":[],"apply":`), "", nil, 1, "modes.aply: unknown mode"},
		"interrupt of it":      {in(`"apply":`, `"interrupt":[],"apply":`), "", nil, 1, "modes.interrupt: unknown mode"},
		"variable missing":     {in(`"arguments":["apply"]`, `"arguments":["env:NONE"]`), "", nil, 1, "the environment has no variable NONE"},
		"key missing":          {in(`"expected_config_files":[]`, `"expected_config_files":["k"]`), "", nil, 1, "the package expects the key k in its configMap"},
		"no resource":          {good, "SKYHOOK_RESOURCE_ID=", nil, 2, `SKYHOOK_RESOURCE_ID "" must be <NodeWright>-<uid>-<number>_<package>_<version>`},
		"round that is none":   {good, "FLEETWRIGHT_ROUND=new", nil, 2, `FLEETWRIGHT_ROUND "new" must be a whole number`},
		"another machine":      {good, "FLEETWRIGHT_MACHINE_ID=other", nil, 1, "the execution is for machine other"},
		"unknown interrupt":    {good, "", []string{"interrupt", "ROOT", copied, b64(`{"type":"reboot"}`)}, 1, `unknown type "reboot" (allowed: node_restart,`},
		"interrupt, no base64": {good, "", []string{"interrupt", "ROOT", copied, "{}"}, 1, "the argument is not base64"},
		"services missing":     {good, "", []string{"interrupt", "ROOT", copied, b64(`{"type":"service_restart"}`)}, 1, "type service_restart needs services"},
		"no systemctl": {good, "", []string{"interrupt", "ROOT", copied, b64(`{"type":"service_restart","services":["a"]}`)}, 1,
			"the host has no such program"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newHost(t, c.config)
			args := c.args
			if args == nil && name != "no mode" {
				args = []string{"apply", "ROOT", copied}
			}
			for i, a := range args {
				args[i] = strings.Replace(a, "ROOT", string(root), 1)
			}
			cmd := process(root, []string{c.env}, args...)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%s", out)
			require.Equal(t, c.code, exit.ExitCode(), "%s", out)
			require.Contains(t, string(out), c.want)
			require.Empty(t, ran(root))
		})
	}
}

func TestGoodStagesSucceed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may chroot")
	}
	root := newHost(t, packageJSON("apply", "apply-check"))
	for _, mode := range []string{"apply", "apply-check", "apply"} {
		out, err := process(root, nil, mode, string(root), copied).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.Equal(t, "apply apply-check", ran(root), "the third was done in this round")
	out, err := process(root, nil, "config", string(root), copied).CombinedOutput()
	require.NoError(t, err, "a mode without steps is nothing to do: %s", out)
	require.Contains(t, string(out), "warning: tuning 1.2.3 has no steps for config: nothing to do")
	out, err = process(root, nil, "--version").CombinedOutput()
	require.NoError(t, err)
	require.NotEmpty(t, strings.TrimSpace(string(out)))
}

// SIGTERM, as the kubelet sends it: the step may end, no other begins, and the result says so.
func TestSIGTERM(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may chroot")
	}
	for name, c := range map[string]struct{ grace, script, want, ran string }{
		"the step ends in its grace": {"120", "touch /began; sleep 1; echo one >>/ran", "step note did not start: the agent was asked to stop", "one"},
		"the step does not":          {"2", "touch /began; sleep 600; echo one >>/ran", "step one was stopped before it ended", ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := packageJSON("apply", "apply-check")
			first := strings.Replace(strings.Replace(config[strings.Index(config, `"apply":[`)+len(`"apply":[`):strings.Index(config, `],"apply-check"`)], "note.sh", "one.sh", 1), `"note"`, `"one"`, 1)
			root := newHost(t, strings.Replace(config, `"apply":[`, `"apply":[`+first+`,`, 1))
			require.NoError(t, root.WriteFile(copied+"/skyhook_dir/one.sh", []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
			cmd := process(root, []string{"FLEETWRIGHT_GRACE=" + c.grace}, "apply", string(root), copied)
			var out bytes.Buffer
			cmd.Stdout = &out
			require.NoError(t, cmd.Start())
			require.Eventually(t, func() bool { return root.Exists("/began") }, time.Minute, 10*time.Millisecond)
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			var exit *exec.ExitError
			require.ErrorAs(t, cmd.Wait(), &exit)
			require.Equal(t, 1, exit.ExitCode())
			require.Contains(t, out.String(), c.want)
			require.Equal(t, c.ran, ran(root))
			left, err := filepath.Glob(filepath.Join(string(root), "*", ".fleetwright-*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}
