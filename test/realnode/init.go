//go:build linux

package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// rebootCode is how PID 1 of a machine ends where something on it asked for a reboot.
const rebootCode = 77

// bootConfig is what a machine is told on its standard input when it is switched on.
type bootConfig struct {
	Name    string `json:"name"`
	Disk    string `json:"disk"`    // what becomes /
	Local   string `json:"local"`   // what becomes /usr/local
	Kubelet string `json:"kubelet"` // the program, on the machine below
	Fake    string `json:"fake"`    // files that stand in for the kernel's, by their names below /proc
	Address string `json:"address"`
	Server  string `json:"server"` // host and port that lead to the API server
}

// runMachine is PID 1 of a machine.
func runMachine() int {
	var c bootConfig
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		fmt.Fprintln(os.Stderr, "machine: read what it is to be:", err)
		return 1
	}
	err := c.mounts()
	if err == nil {
		err = c.network()
	}
	if err == nil {
		err = c.services()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "machine %s: %v\n", c.Name, err)
	}
	return 1
}

type mount struct {
	source, target, kind string
	flags                uintptr
}

func (m mount) do() error {
	if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.source, m.target, err)
	}
	return nil
}

// mounts makes the machine's file systems and goes to live in them.
func (c bootConfig) mounts() error {
	const bind, all = syscall.MS_BIND, syscall.MS_BIND | syscall.MS_REC
	at := func(path string) string { return filepath.Join(c.Disk, path) }
	list := []mount{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{c.Disk, c.Disk, "", bind},
		{"/usr", at("usr"), "", bind},
		{"", at("usr"), "", bind | syscall.MS_REMOUNT | syscall.MS_RDONLY},
		{c.Local, at("usr/local"), "", bind},
		{c.Kubelet, at("usr/local/bin/kubelet"), "", bind},
		{"proc", at("proc"), "proc", 0},
		{"/sys", at("sys"), "", all},
		{"/dev", at("dev"), "", all},
		{"tmpfs", at("run"), "tmpfs", 0},
	}
	for _, m := range list {
		if err := m.do(); err != nil {
			return err
		}
	}
	if err := c.fakes(at("proc")); err != nil {
		return err
	}
	return c.enter()
}

// fakes puts a file over each of the kernel's that machines on one kernel cannot have for themselves.
func (c bootConfig) fakes(proc string) error {
	return filepath.WalkDir(c.Fake, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, c.Fake)
		return mount{path, filepath.Join(proc, name), "", syscall.MS_BIND}.do()
	})
}

// enter makes the disk the root. Mounts are shared from there on, as on a machine with systemd: containers see later ones.
func (c bootConfig) enter() error {
	old := filepath.Join(c.Disk, "mnt")
	if err := syscall.PivotRoot(c.Disk, old); err != nil {
		return fmt.Errorf("enter %s: %w", c.Disk, err)
	}
	return errors.Join(os.Chdir("/"), syscall.Unmount("/mnt", syscall.MNT_DETACH), mount{"", "/", "", syscall.MS_REC | syscall.MS_SHARED}.do(),
		syscall.Sethostname([]byte(c.Name)))
}

// network gives the interface its address, and pods the address of the API server that they are told. No kube-proxy runs here.
func (c bootConfig) network() error {
	err := errors.Join(
		command("ip", "link", "set", "lo", "up"),
		command("ip", "addr", "add", c.Address+"/24", "dev", "eth0"),
		command("ip", "link", "set", "eth0", "up"),
		command("ip", "addr", "add", serviceAddress+"/32", "dev", "lo"),
	)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", serviceAddress+":443")
	if err != nil {
		return fmt.Errorf("listen for the API server's clients: %w", err)
	}
	go forward(listener, c.Server)
	return nil
}

// services runs what a machine runs until it is told to reboot or the power fails.
func (c bootConfig) services() error {
	err := errors.Join(os.MkdirAll("/run/systemd/system", 0o755), syscall.Mkfifo("/run/initctl", 0o600), command("/usr/local/bin/systemctl", "boot"),
		command("sh", "-c", "cat /etc/sysctl.d/*.conf /dev/null 2>/dev/null | sysctl -q -p -"))
	if err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	go waitForReboot()
	runtime, err := start("containerd")
	if err != nil {
		return err
	}
	if err := waitForSocket("/run/containerd/containerd.sock"); err != nil {
		return err
	}
	kubelet, err := c.startKubelet()
	if err != nil {
		return err
	}
	reap(func(pid int, status syscall.WaitStatus) bool {
		if pid == kubelet { // as Restart=always does
			fmt.Fprintf(os.Stderr, "kubelet ended with %d; starting it again\n", status.ExitStatus())
			time.Sleep(200 * time.Millisecond)
			kubelet, err = c.startKubelet()
		}
		return err != nil || pid == runtime
	})
	return errors.Join(errors.New("containerd ended, or the kubelet cannot be started"), err)
}

func (c bootConfig) startKubelet() (int, error) {
	return start("kubelet", "--config=/etc/kubernetes/kubelet.yaml", "--kubeconfig=/etc/kubernetes/kubelet.kubeconfig",
		"--cert-dir=/var/lib/kubelet/pki", "--hostname-override="+c.Name, "--node-ip="+c.Address,
		"--node-labels=pool=gpu")
}

// start runs a service with its output in /var/log.
func start(name string, args ...string) (int, error) {
	program, err := exec.LookPath(name)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", name, err)
	}
	log, err := os.OpenFile("/var/log/"+name+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	p, err := os.StartProcess(program, append([]string{name}, args...), &os.ProcAttr{
		Env:   []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"},
		Files: []*os.File{nil, log, log}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", name, err)
	}
	return p.Pid, nil
}

func waitForSocket(path string) error {
	for range 1000 {
		if c, err := net.Dial("unix", path); err == nil {
			return c.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("wait for %s: nobody listens, see /var/log", path)
}

// waitForReboot reads the pipe that the machine's reboot writes to. The end of PID 1 ends everything, at once.
func waitForReboot() {
	f, err := os.OpenFile("/run/initctl", os.O_RDONLY, 0) // opens when somebody writes
	if err == nil {
		if said, _ := io.ReadAll(f); strings.Contains(string(said), "reboot") {
			os.Exit(rebootCode)
		}
	}
	fmt.Fprintln(os.Stderr, "machine: /run/initctl cannot be read, or was closed without a word")
	os.Exit(1)
}

// forward hands every connection on.
func forward(listener net.Listener, to string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = from.Close() }() // the other side sees it
			server, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(server, from)
				_ = server.Close()
			}()
			_, _ = io.Copy(from, server)
		}()
	}
}
