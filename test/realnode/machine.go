//go:build linux

package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Addresses: the bridge and the machines have theirs in the sandbox's own network namespace only.
const (
	bridge         = "realnode0"
	gateway        = "10.231.0.1"
	serviceAddress = "10.96.0.1" // of the Service default/kubernetes, which the API server's certificate names too
)

// Machine is one node. Its disk survives reboots and losses of power; /run, mounts, processes and cgroups do not.
type Machine struct {
	// Name of the machine and of its node.
	Name string
	// Address of its eth0, which the API server reaches its kubelet at.
	Address string

	lab  *Lab
	disk string // directory that is its /

	mu     sync.Mutex
	power  *exec.Cmd     // PID 1; nil: off
	ended  chan struct{} // closed when it has ended
	boots  int
	failed error // why it did not come up again after a reboot
}

// Path is where a file of the machine's disk lies for this process. /usr/local is part of it, the rest of /usr is not.
func (m *Machine) Path(file string) string {
	if below, ok := strings.CutPrefix(file, "/usr/local/"); ok {
		return filepath.Join(m.local(), below)
	}
	return filepath.Join(m.disk, file)
}

func (m *Machine) local() string { return filepath.Join(filepath.Dir(m.disk), "local") }

// On switches the machine on; it has booted when its node is Ready. On a machine that is on it does nothing.
func (m *Machine) On() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.power != nil {
		return nil
	}
	return m.on()
}

func (m *Machine) on() error {
	m.boots++
	config, err := m.prepareBoot()
	if err != nil {
		return fmt.Errorf("boot %s: %w", m.Name, err)
	}
	console, err := os.OpenFile(filepath.Join(filepath.Dir(m.disk), "console.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("boot %s: %w", m.Name, err)
	}
	defer func() { _ = console.Close() }() // the child has its own
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{stageEnv + "=" + stageMachine, "PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("boot %s: %w", m.Name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("boot %s: %w", m.Name, err)
	}
	m.power, m.ended = cmd, make(chan struct{})
	go m.watch(cmd, m.ended)
	// The name of the outer end is new for every boot: the kernel removes the old one in its own time.
	cable := fmt.Sprintf("%s-%d", m.Name, m.boots)
	err = errors.Join(
		command("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(cmd.Process.Pid)),
		command("ip", "link", "set", cable, "master", bridge, "up"),
		json.NewEncoder(stdin).Encode(config), stdin.Close(),
	)
	if err != nil {
		_ = cmd.Process.Kill()
		return fmt.Errorf("boot %s: %w", m.Name, err)
	}
	return nil
}

// watch sees PID 1 end, and with it everything on the machine. Where it ended for a reboot, the machine comes up again.
func (m *Machine) watch(cmd *exec.Cmd, ended chan struct{}) {
	_ = cmd.Wait() // its exit code says it all
	m.mu.Lock()
	defer m.mu.Unlock()
	m.power = nil
	close(ended)
	if cmd.ProcessState.ExitCode() == rebootCode {
		m.failed = m.on()
	}
}

// Off takes the power away, as a pulled plug does: nothing on the machine runs on, nothing can end in order.
func (m *Machine) Off() {
	m.mu.Lock()
	cmd, ended := m.power, m.ended
	if cmd != nil {
		_ = cmd.Process.Kill()
	}
	m.mu.Unlock()
	if cmd != nil {
		<-ended
	}
}

// Boots counts how often the machine was started, the first time included, and says why it is not up where it ought to be.
func (m *Machine) Boots() (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.power == nil {
		return m.boots, errors.Join(fmt.Errorf("%s is off; its console says:\n%s", m.Name, m.quote("console.log")), m.failed)
	}
	return m.boots, nil
}

// BootID is the ID of the boot that the machine is on.
func (m *Machine) BootID() string {
	data, err := os.ReadFile(filepath.Join(m.fake(), "sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Run runs a program on the machine and returns what it prints. The machine has to be on.
func (m *Machine) Run(args ...string) (string, error) {
	m.mu.Lock()
	cmd := m.power
	m.mu.Unlock()
	if cmd == nil {
		return "", fmt.Errorf("run %s on %s: it is off", args[0], m.Name)
	}
	in := exec.Command("nsenter", append([]string{"--target", fmt.Sprint(cmd.Process.Pid), "--mount", "--net", "--pid", "--uts", "--ipc", "--"}, args...)...)
	in.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := in.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run %s on %s: %w: %s", strings.Join(args, " "), m.Name, err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// quote is the end of a log beside the disk.
func (m *Machine) quote(name string) string {
	const most = 3000
	data, err := os.ReadFile(filepath.Join(filepath.Dir(m.disk), name))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}

func (m *Machine) fake() string {
	return filepath.Join(filepath.Dir(m.disk), fmt.Sprintf("proc-%d", m.boots))
}

// kernelValues are what the kubelet wants the kernel to be set to. It finds them so, and leaves the machine below alone.
var kernelValues = map[string]string{
	"sys/vm/overcommit_memory": "1", "sys/vm/panic_on_oom": "0", "sys/kernel/panic": "10", "sys/kernel/panic_on_oops": "1",
	"sys/kernel/keys/root_maxkeys": "1000000", "sys/kernel/keys/root_maxbytes": "25000000",
}

// prepareBoot gives the boot an ID and the command line that the boot loader has for it.
func (m *Machine) prepareBoot() (bootConfig, error) {
	cmdline, err := os.ReadFile(filepath.Join(m.disk, "boot/grub/cmdline"))
	files := map[string]string{"sys/kernel/random/boot_id": newUUID(), "cmdline": strings.TrimSpace(string(cmdline))}
	for name, value := range kernelValues {
		files[name] = value
	}
	for name, value := range files {
		err = errors.Join(err, writeFile(filepath.Join(m.fake(), name), value+"\n", 0o644))
	}
	removeCgroups(m.Name)
	err = errors.Join(err, makeCgroup(m.Name))
	return bootConfig{
		Name: m.Name, Disk: m.disk, Local: m.local(), Kubelet: m.lab.kubelet, Fake: m.fake(), Address: m.Address, Server: m.lab.server,
	}, err
}

func writeFile(path, content string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), mode)
}
