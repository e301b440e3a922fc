package pack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
	"github.com/fleetwright/fleetwright/pkg/adapter/host/hosttest"
)

// structure is how one of NVIDIA's packages is built: the files of each mode, in order. A file that is followed by `once` has
// idempotence false; further words are arguments.
type structure struct {
	name, version string
	expected      []string
	modes         map[string][]string
}

// structures follow the packages' public descriptions. shellscript and tuning are in test/e2e, with scripts that do something.
var structures = map[string]structure{
	"nvidia-tuned": {"nvidia_tuned", "0.9.0", []string{"accelerator"}, map[string][]string{
		"apply": {"install_tuned.sh"}, "apply-check": {"install_tuned_check.sh"},
		"upgrade": {"install_tuned.sh"}, "upgrade-check": {"install_tuned_check.sh"},
		"config": {
			"prepare_nvidia_profiles.sh once", "write_nccl_topo.sh", "install_rdma_vfs_ready.sh", "configure_pcie_acs.sh once",
			"configure_iommu_passthrough.sh once", "configure_spcx_cc.sh once", "apply_tuned_profile.sh", "configure_bootloader.sh once",
		},
		"config-check": {
			"prepare_nvidia_profiles_check.sh", "write_nccl_topo_check.sh", "install_rdma_vfs_ready_check.sh", "configure_pcie_acs_check.sh",
			"configure_iommu_passthrough_check.sh", "configure_spcx_cc_check.sh", "apply_tuned_profile_check.sh", "configure_bootloader_check.sh",
		},
		"post-interrupt-check": {
			"install_rdma_vfs_ready_check.sh", "configure_pcie_acs_check.sh", "configure_iommu_passthrough_check.sh",
			"configure_bootloader_check.sh", "post_interrupt_tuned_check.sh",
		},
		"uninstall": {
			"uninstall_rdma_vfs_ready.sh", "uninstall_spcx_cc.sh", "uninstall_iommu_passthrough.sh", "uninstall_bootloader.sh", "uninstall_tuned.sh",
		},
		"uninstall-check": {
			"uninstall_rdma_vfs_ready_check.sh", "uninstall_spcx_cc_check.sh", "uninstall_iommu_passthrough_check.sh",
			"uninstall_bootloader_check.sh", "uninstall_tuned_check.sh",
		},
	}},
	"nvidia-setup": {"nvidia_setup", "0.5.0", []string{"service", "accelerator"}, map[string][]string{
		"apply": {"apply.sh"}, "apply-check": {"apply_check.sh"}, "post-interrupt-check": {"post_interrupt_check.sh"},
	}},
	"bind-mount": {"bind-mount", "0.1.0", []string{"source", "target"}, map[string][]string{
		"apply": {"install.sh"}, "apply-check": {"install_check.sh"}, "config": {"install.sh"}, "config-check": {"install_check.sh"},
		"upgrade": {"install.sh"}, "upgrade-check": {"install_check.sh"},
		"post-interrupt": {"post_interrupt.sh"}, "post-interrupt-check": {"post_interrupt_check.sh"},
		"uninstall": {"uninstall.sh"}, "uninstall-check": {"uninstall_check.sh"},
	}},
	"kdump": {"kdump", "1.0.1", nil, map[string][]string{
		"apply": {"install_kdump.sh"}, "apply-check": {"install_kdump_check.sh"},
		"config": {"configure_kdump.sh"}, "config-check": {"configure_kdump_check.sh"}, "post-interrupt-check": {"kdump_post_interrupt_check.sh"},
		"uninstall": {"uninstall_kdump.sh"}, "uninstall-check": {"uninstall_kdump_check.sh"},
	}},
}

// build writes the package with scripts that do nothing.
func (s structure) build(t *testing.T) string {
	dir := t.TempDir()
	modes := map[string][]map[string]any{}
	for mode, steps := range s.modes {
		for _, text := range steps {
			words := strings.Fields(text)
			once := len(words) > 1 && words[1] == "once"
			modes[mode] = append(modes[mode], map[string]any{
				"name": strings.TrimSuffix(words[0], ".sh"), "path": words[0], "arguments": []string{}, "returncodes": []int{0}, "on_host": true,
				"idempotence": !once, "upgrade_step": false, "env": map[string]string{},
			})
			write(t, dir, "skyhook_dir/"+words[0], "#!/bin/bash\n")
		}
	}
	data, err := json.MarshalIndent(map[string]any{
		"schema_version": "v1", "package_name": s.name, "package_version": s.version, "expected_config_files": append([]string{}, s.expected...),
		"modes": modes,
	}, "", " ")
	require.NoError(t, err)
	write(t, dir, "config.json", string(data))
	return dir
}

const realPackages = "../../../test/e2e/testdata/packages/"

// Packages that NVIDIA publishes have no errors, and what is odd about them is said.
func TestStructuresOfNvidiasPackages(t *testing.T) {
	const noEffect = "warning: config.json:%d: modes.config[%d].idempotence: false has no effect: the steps of config run every time\n"
	for name, want := range map[string]string{
		"shellscript": "", "tuning": "", "bind-mount": "", "kdump": "",
		"nvidia-tuned": fmt.Sprintf(strings.Repeat(noEffect, 5), 35, 0, 71, 3, 83, 4, 95, 5, 119, 7),
		"nvidia-setup": "warning: config.json: modes.uninstall: is missing: what the package changes stays on a host that it is taken off\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := realPackages + name
			if s, ok := structures[name]; ok {
				dir = s.build(t)
			}
			out, err := command(t, "lint", dir)
			require.NoError(t, err)
			require.Equal(t, want, out)
		})
	}
}

// tunedHost is a root file system with what the scripts of shellscript and tuning call. Kernel, boot loader and systemd are
// played: they note in /var/log/played what they were asked for.
func tunedHost(t *testing.T) host.Root {
	root := hosttest.Root(t)
	hosttest.Install(t, root, "bash", "ls", "sed", "grep", "xargs", "mkdir", "rmdir", "mv", "rm", "cmp", "dirname", "find", "echo")
	for name, text := range map[string]string{
		"update-grub": `echo "update-grub: $(cat /etc/default/grub.d/*.cfg 2>/dev/null)" >>/var/log/played`,
		"sysctl":      `echo "sysctl $*" >>/var/log/played`,
		"systemctl": `case $1 in
show) find "/etc/systemd/system/$5.service.d" -type f ;;
*) echo "systemctl $*" >>/var/log/played ;;
esac`,
	} {
		require.NoError(t, root.WriteFile("/bin/"+name, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	require.NoError(t, root.WriteFile("/var/log/played", nil, 0o644))
	return root
}

func TestTrialOfShellscriptAndTuning(t *testing.T) {
	needNamespaces(t)
	cmdline, err := os.ReadFile("/proc/cmdline")
	require.NoError(t, err)
	argument := strings.Fields(string(cmdline))[0] // one that the running kernel was started with
	for name, c := range map[string]struct {
		keys map[string]string
		want []string
		bad  string
	}{
		"shellscript": {map[string]string{
			"apply.sh":  `test "$(cat "$SKYHOOK_DIR/configmaps/motd")" = hello && cat "$SKYHOOK_DIR/configmaps/motd" >/etc/motd.acme`,
			"config.sh": "echo configured >>/etc/acme", "config_check.sh": "grep -q configured /etc/acme",
			"uninstall.sh": "rm -f /etc/motd.acme /etc/acme", "uninstall_check.sh": "! test -e /etc/motd.acme", "motd": "hello\n",
		}, []string{"  + /etc/acme\n", "  + /etc/motd.acme\n", "8 modes, all good\n"}, ""},
		"shellscript without keys": {nil, []string{"8 modes, all good\n"}, ""},
		"shellscript that fails":   {map[string]string{"apply_check.sh": "test -e /etc/none"}, nil, "apply-check                    failed: step apply-check returned 1 (accepted: 0)"},
		"tuning": {map[string]string{
			"grub.conf": argument + "\n", "sysctl.conf": "vm.swappiness=10\n", "ulimit.conf": "memlock unlimited\nnofile 1048576\n",
			"service_containerd.conf": "[Service]\nLimitNOFILE=1048576\n",
		}, []string{
			"  + /etc/default/grub.d/60-tuning.cfg\n", "  + /etc/security/limits.d/60-tuning.conf\n", "  + /etc/sysctl.d/60-tuning.conf\n",
			"  + /etc/systemd/system/containerd.service.d/60-tuning.conf\n", "6 modes, all good\n",
		}, ""},
		"tuning whose kernel was not restarted": {map[string]string{"grub.conf": "fleetwright.none=1\n"}, nil,
			"the running kernel was started without fleetwright.none=1"},
	} {
		t.Run(name, func(t *testing.T) {
			values := t.TempDir()
			args := []string{"test", realPackages + strings.Fields(name)[0], "--root", string(tunedHost(t))}
			for key, text := range c.keys {
				require.NoError(t, os.WriteFile(filepath.Join(values, key), []byte(text), 0o644))
				args = append(args, "--config", key+"="+filepath.Join(values, key))
			}
			out, err := command(t, args...)
			require.Equal(t, c.bad != "", err != nil, out)
			require.Contains(t, out, c.bad)
			for _, want := range c.want {
				require.Contains(t, out, want)
			}
			_, left, _ := strings.Cut(out, "still different after the uninstall")
			require.NotContains(t, left, "/etc/", out)
		})
	}
}
