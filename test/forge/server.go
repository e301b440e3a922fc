package forge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"code.gitea.io/sdk/gitea"
	"golang.org/x/crypto/ssh"

	"github.com/fleetwright/fleetwright/test/foreign"
)

const (
	startLimit = 90 * time.Second
	stopLimit  = 15 * time.Second
	poll       = 100 * time.Millisecond
	tries      = 3 // another process may take a port between its choice and its use
)

// Server is a running Gitea with one administrator. Registration is off; webhooks may go to loopback addresses.
type Server struct {
	// URL of its pages and API.
	URL string
	// SSH is host:port of its SSH server, whose user is git.
	SSH string
	// HostKey is the public key of the SSH server in authorized_keys form.
	HostKey string
	// Admin and Password are its administrator's.
	Admin, Password string
	// Token of the administrator, with every scope.
	Token string

	dir    string
	binary string
	cmd    *exec.Cmd
	ended  chan error
	tokens int
}

// Start builds Gitea if it must, and runs it with its data in dir, which has to be empty. It returns when pages and SSH answer.
func Start(ctx context.Context, dir string, log io.Writer) (*Server, error) {
	binary, err := Build(ctx, log)
	if err != nil {
		return nil, err
	}
	files, err := static(ctx)
	if err != nil {
		return nil, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	s := &Server{dir: dir, binary: binary, Admin: "forgeadmin"}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	for range tries {
		if err = s.serve(ctx, files); err == nil {
			break
		}
		s.Stop()
	}
	if err == nil {
		err = s.addAdmin(ctx)
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("start gitea: %w", err)
	}
	return s, nil
}

// prepare makes directories, the host key and the administrator's password.
func (s *Server) prepare(ctx context.Context) error {
	for _, name := range []string{"home", "data/ssh", "log", "repositories", "custom"} {
		if err := os.MkdirAll(filepath.Join(s.dir, name), 0o700); err != nil {
			return fmt.Errorf("make data directory: %w", err)
		}
	}
	key, public, err := hostKey()
	if err != nil {
		return err
	}
	s.HostKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
	if s.Password, err = s.secret(ctx, "SECRET_KEY"); err != nil {
		return err
	}
	return os.WriteFile(s.path("data/ssh/host_ed25519"), key, 0o600)
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// serve chooses ports, writes the configuration and starts the process.
func (s *Server) serve(ctx context.Context, files string) error {
	web, err := freePort()
	if err != nil {
		return err
	}
	shell, err := freePort()
	if err != nil {
		return err
	}
	s.URL, s.SSH = fmt.Sprintf("http://127.0.0.1:%d", web), fmt.Sprintf("127.0.0.1:%d", shell)
	if err := s.configure(ctx, configuration{dir: s.dir, files: files, url: s.URL, web: web, ssh: shell}); err != nil {
		return err
	}
	if out, err := s.command(ctx, "migrate").CombinedOutput(); err != nil {
		return fmt.Errorf("make database: %w: %s", err, lastLine(out))
	}
	log, err := os.OpenFile(s.path("log/process.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer func() { _ = log.Close() }()
	s.cmd = s.command(context.WithoutCancel(ctx), "web")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = foreign.ChildAttr()
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return fmt.Errorf("start process: %w", err)
	}
	ended := make(chan error, 1)
	cmd := s.cmd
	go func() { ended <- cmd.Wait() }()
	s.ended = ended
	return s.ready(ctx)
}

// command runs Gitea without the settings, credentials and proxies of whoever runs the tests.
func (s *Server) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.binary, append([]string{"--work-path", s.dir, "--config", s.path("app.ini")}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.path("home"), "USER=" + userName(), "GIT_CONFIG_NOSYSTEM=1", "NO_PROXY=127.0.0.1,localhost",
		"GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT=true",
	}
	return cmd
}

// ready waits until pages and SSH answer, or the process ends.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		if s.healthy(ctx) {
			return nil
		}
		select {
		case err := <-s.ended:
			s.cmd = nil
			log, _ := os.ReadFile(s.path("log/process.log"))
			return fmt.Errorf("it ended by itself: %w: %s", errors.Join(err, errors.New("see log/process.log")), lastLine(log))
		case <-ctx.Done():
			return fmt.Errorf("wait until it answers: %w", ctx.Err())
		case <-time.After(poll):
		}
	}
}

func (s *Server) healthy(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/healthz", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.SSH)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return res.StatusCode == http.StatusOK
}

func (s *Server) addAdmin(ctx context.Context) error {
	out, err := s.command(ctx, "admin", "user", "create", "--admin", "--username", s.Admin, "--password", s.Password,
		"--email", s.Admin+"@example.com", "--must-change-password=false").CombinedOutput()
	if err != nil {
		return fmt.Errorf("create administrator: %w: %s", err, lastLine(out))
	}
	root, err := s.WithToken(ctx, s.Admin, gitea.AccessTokenScopeAll) // the program's own command for tokens prints none now and then
	if err != nil {
		return err
	}
	s.Token = root.Token
	return nil
}

// Stop ends the process; the data stay. Stopping twice is harmless.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(stopLimit):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	s.cmd = nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("choose port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(bytes.ToValidUTF8(out, nil))), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
