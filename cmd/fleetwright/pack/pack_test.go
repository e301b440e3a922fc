package pack

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain is the program on the scratch host, too.
func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(scratchEnv); !ok {
		os.Exit(m.Run())
	}
	cmd := New(Streams{os.Stdout, os.Stderr})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(os.Args[2:]) // without the word package
	if cmd.Execute() != nil {
		os.Exit(1)
	}
}

// command runs `fleetwright package` and returns what it printed.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := New(Streams{&out, &errOut})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(context.Background())
	return out.String() + errOut.String(), err
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o755))
}

// newPackage is the scaffolded one.
func newPackage(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "fleetwright-greeting")
	_, err := command(t, "init", dir)
	require.NoError(t, err)
	return dir
}

func replace(t *testing.T, file, old, to string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(data), old)
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(data), old, to)), 0o755))
}

func TestInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "greeting")
	out, err := command(t, "init", dir)
	require.NoError(t, err)
	require.Equal(t, 5, strings.Count(out, "\n"), out)
	out, err = command(t, "lint", dir)
	require.NoError(t, err)
	require.Empty(t, out)
	_, err = command(t, "init", dir)
	require.EqualError(t, err, dir+" is not empty")
	_, err = command(t, "init", filepath.Join(t.TempDir(), "Greeting_1"))
	require.EqualError(t, err,
		`package name "Greeting_1" (allowed: 2 to 43 lower-case letters, digits or hyphens, with a letter at the start and at the end)`)
}

func TestLint(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(dir string)
		want  string
		bad   bool
	}{
		"no config.json": {func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "config.json"))) }, "config.json: is missing\n", true},
		"config.json": {func(dir string) { replace(t, filepath.Join(dir, "config.json"), `"v1"`, `"v2"`) },
			"config.json:3: schema_version: \"v2\" is unknown (allowed: \"v1\")\n", true},
		"step that is not there": {func(dir string) { replace(t, filepath.Join(dir, "config.json"), `"config.sh"`, `"confg.sh"`) },
			"config.json:9: modes.config[0].path: skyhook_dir has no file confg.sh (allowed: config.sh)\n", true},
		"no interpreter": {func(dir string) { write(t, dir, "skyhook_dir/config.sh", "echo hi\n") },
			"skyhook_dir/config.sh:1: has no interpreter line: the kernel cannot start it (example: #!/bin/bash)\n", true},
		"line ends": {func(dir string) { write(t, dir, "skyhook_dir/config.sh", "#!/bin/sh\r\n") },
			"skyhook_dir/config.sh:1: has the line ends of Windows: the kernel would look for an interpreter whose name ends with \\r\n", true},
		"empty": {func(dir string) { write(t, dir, "skyhook_dir/config.sh", "") }, "skyhook_dir/config.sh:1: is empty\n", true},
		"relative interpreter": {func(dir string) { write(t, dir, "skyhook_dir/config.sh", "#!bash\n") },
			"skyhook_dir/config.sh:1: must name its interpreter by an absolute path (example: #!/usr/bin/env bash)\n", true},
		"link": {func(dir string) {
			require.NoError(t, os.Mkdir(filepath.Join(dir, "root_dir"), 0o755))
			require.NoError(t, os.Symlink("/etc/shadow", filepath.Join(dir, "root_dir", "shadow")))
		}, "root_dir/shadow: is no regular file: its target would be another one in the image and on the host (allowed: files and directories)\n", true},
		"idempotence": {func(dir string) {
			replace(t, filepath.Join(dir, "config.json"), `"uninstall.sh", "arguments": [], "returncodes": [0], "on_host": true, "idempotence": true`,
				`"uninstall.sh", "arguments": [], "returncodes": [0], "on_host": true, "idempotence": false`)
		}, "warning: config.json:15: modes.uninstall[0].idempotence: false has no effect: the steps of uninstall run every time\n", false},
		"baked": {func(dir string) { write(t, dir, "configmaps/settings", "x") },
			"warning: config.json: expected_config_files[0]: settings is part of the package itself: that a NodeWright sets it is not checked\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newPackage(t)
			tc.spoil(dir)
			out, err := command(t, "lint", dir)
			require.Equal(t, tc.want, out)
			require.Equal(t, tc.bad, err != nil, "%v", err)
		})
	}
	_, err := command(t, "lint", filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "is not a directory")
}

// What a step writes is seen, and nothing of it reaches the machine.
func TestTrialOnAScratchHost(t *testing.T) {
	needNamespaces(t)
	values := filepath.Join(t.TempDir(), "settings")
	require.NoError(t, os.WriteFile(values, []byte("hello\n"), 0o644))
	machine, err := os.ReadFile("/etc/passwd")
	require.NoError(t, err)

	t.Run("good", func(t *testing.T) {
		dir := newPackage(t)
		out, err := command(t, "test", dir, "--config", "settings="+values)
		require.NoError(t, err, out)
		require.Contains(t, out, "config (again)")
		require.Contains(t, out, "  + /etc/fleetwright-greeting/settings\n")
		require.NotContains(t, out, "still different")
		require.Contains(t, out, "4 modes, all good\n")
	})
	t.Run("what is left over", func(t *testing.T) {
		dir := newPackage(t)
		write(t, dir, "skyhook_dir/config.sh", `#!/bin/sh
set -eu
mkdir -p /etc/fleetwright-greeting /opt/new
cp "$SKYHOOK_DIR/configmaps/settings" /etc/fleetwright-greeting/settings
echo more >>/etc/passwd
rm -f /etc/hostname
touch /opt/new/file
cat /etc/group >/etc/group.new && cat /etc/group.new >/etc/group && rm /etc/group.new
`)
		out, err := command(t, "test", dir, "--config", "settings="+values)
		require.NoError(t, err, out)
		require.Contains(t, out, `warning: still different after the uninstall:
  - /etc/hostname
  ~ /etc/passwd
  + /opt/new/file
`)
		require.NotContains(t, out, "/etc/group", "it was written as it was")
	})
	t.Run("bad", func(t *testing.T) {
		dir := newPackage(t)
		write(t, dir, "skyhook_dir/uninstall.sh", "#!/bin/sh\necho forgotten\n")
		out, err := command(t, "test", dir, "--config", "settings="+values)
		require.EqualError(t, err, "the package failed its test")
		require.Contains(t, out, "uninstall-check                failed: step uninstall-check returned 1 (accepted: 0)\n")
		out, err = command(t, "test", dir)
		require.EqualError(t, err, "the package failed its test")
		require.Contains(t, out, "the package expects the key settings in its configMap")
	})
	t.Run("upgrade", func(t *testing.T) {
		older, dir := newPackage(t), newPackage(t)
		replace(t, filepath.Join(dir, "config.json"), `"0.1.0"`, `"0.2.0"`)
		step := `[{"name": "u", "path": "upgrade.sh", "arguments": [], "returncodes": [0], "on_host": true, "idempotence": true, "upgrade_step": true}]`
		replace(t, filepath.Join(dir, "config.json"), `"modes": {`, `"modes": {"upgrade": `+step+`, "upgrade-check": `+step+`,`)
		apply := strings.ReplaceAll(strings.ReplaceAll(step, "upgrade.sh", "config.sh"), `"upgrade_step": true`, `"upgrade_step": false`)
		replace(t, filepath.Join(older, "config.json"), `"modes": {`, `"modes": {"apply": `+apply+`, "apply-check": `+apply+`,`)
		write(t, dir, "skyhook_dir/upgrade.sh", "#!/bin/sh\ntest \"$1-$2\" = 0.1.0-0.2.0 || test \"$1-$2\" = 0.2.0-0.2.0\n")
		out, err := command(t, "test", dir, "--from", older, "--config", "settings="+values, "-v")
		require.NoError(t, err, out)
		require.Contains(t, out, "fleetwright-greeting 0.1.0  config ")
		require.Contains(t, out, "fleetwright-greeting 0.2.0  upgrade-check ")
	})
	t.Run("the kernel is this machine's", func(t *testing.T) {
		dir := newPackage(t)
		write(t, dir, "skyhook_dir/config_check.sh", `#!/bin/sh
for file in /proc/sys/kernel/hostname /sys/kernel/mm/transparent_hugepage/enabled; do
  if [ -e $file ] && { cat $file >$file; } 2>/dev/null; then echo "$file can be written"; exit 1; fi
done
`)
		out, err := command(t, "test", dir, "--config", "settings="+values)
		require.NoError(t, err, out)
	})
	now, err := os.ReadFile("/etc/passwd")
	require.NoError(t, err)
	require.Equal(t, string(machine), string(now))
	require.NoFileExists(t, "/opt/new/file")
}

// needNamespaces leaves a test out where the machine does not let it make a scratch host, and says so.
func needNamespaces(t *testing.T) {
	t.Helper()
	cmd := exec.Command("true")
	if err := enter(cmd); err != nil {
		t.Skipf("no scratch host can be made here: %v", err)
	}
}

// The examples of the repository are good, and do on a host what they say.
func TestExamplePackages(t *testing.T) {
	const examples = "../../../fleet-example/packages/"
	values := t.TempDir()
	for name, text := range map[string]string{
		"sysctl.conf": "vm.swappiness = 10\n", "service": "containerd", "dropin.conf": "[Service]\nLimitNOFILE=1048576\n",
		"arguments": "hugepagesz=1G\nhugepages=4\n", "apply.sh": "echo hi >/etc/fleetwright-hi\n",
		"uninstall.sh": "rm /etc/fleetwright-hi\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(values, name), []byte(text), 0o644))
	}
	for _, tc := range []struct {
		name string
		keys []string
		skip string
		puts string
	}{
		{"sysctl", []string{"sysctl.conf"}, "", "/etc/sysctl.d/90-fleetwright.conf"},
		{"service-dropin", []string{"service", "dropin.conf"}, "", "/etc/systemd/system/containerd.service.d/50-fleetwright.conf"},
		{"kernel-argument", []string{"arguments"}, "post-interrupt", "/etc/default/grub.d/50-fleetwright.cfg"},
		{"shellscript", []string{"apply.sh", "uninstall.sh"}, "", "/etc/fleetwright-hi"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := command(t, "lint", examples+tc.name)
			require.NoError(t, err)
			require.Empty(t, out)
			needNamespaces(t)
			args := []string{"test", examples + tc.name}
			for _, key := range tc.keys {
				args = append(args, "--config", key+"="+filepath.Join(values, key))
			}
			if tc.skip != "" {
				args = append(args, "--skip", tc.skip)
			}
			out, err = command(t, args...)
			require.NoError(t, err, out)
			require.Contains(t, out, "  + "+tc.puts+"\n")
			require.NotContains(t, out, "still different")
		})
	}
}
