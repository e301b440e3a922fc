package gitserver

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// maxPush bounds the body of one request. CGI needs its length beforehand, so it is held in memory.
const maxPush = 256 << 20

// Options say what a server demands of its clients. The zero value is plain HTTP without authentication.
type Options struct {
	// TLS serves HTTPS with a certificate of a CA made for this server; see Server.CA.
	TLS bool
	// ClientCertificate demands one that this server's CA signed; see Server.ClientCertificate. It needs TLS.
	ClientCertificate bool
	// Username and Password are demanded as HTTP basic authentication where Username is set.
	Username, Password string
	// BearerToken is demanded as `Authorization: Bearer` where set.
	BearerToken string
	// AuthorizedKeys are the public keys that may log in by SSH. Without them no SSH server is started.
	AuthorizedKeys []ssh.PublicKey
	// HostKeys of the SSH server; one new ed25519 key where empty.
	HostKeys []ssh.Signer
	// Wrap goes around the whole HTTP handler, for redirects, delays and failures.
	Wrap func(http.Handler) http.Handler
}

// Server serves the bare repositories below one directory.
type Server struct {
	root     string // of the bare repositories
	home     string // an empty HOME, so that no configuration of this machine is read
	options  Options
	ca       []byte
	client   [2][]byte
	http     *http.Server
	listener net.Listener
	ssh      *sshServer

	mu       sync.Mutex
	requests []Request
}

// Request is one line of the server's request log.
type Request struct {
	// Method is the HTTP method, or SSH.
	Method string
	// Path is the URL's path, or the SSH command.
	Path string
	// Service is git-upload-pack or git-receive-pack where the request names one.
	Service string
	// Authorization is true where the client sent credentials of any kind.
	Authorization bool
}

// New starts the servers over dir, which is created where it is missing. The caller closes them.
func New(dir string, options Options) (*Server, error) {
	s := &Server{root: filepath.Join(dir, "repositories"), home: filepath.Join(dir, "home"), options: options}
	for _, d := range []string{s.root, s.home} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
	}
	if err := s.startHTTP(); err != nil {
		return nil, err
	}
	if len(options.AuthorizedKeys) == 0 {
		return s, nil
	}
	if err := s.startSSH(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close stops the servers and waits for their connections. The repositories stay on disk.
func (s *Server) Close() error {
	var errs []error
	if s.ssh != nil {
		errs = append(errs, s.ssh.close())
	}
	// A push under way is let finish: git that is cut off goes on writing for a moment, into a directory that may be gone.
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		errs = append(errs, s.http.Close())
	}
	return errors.Join(errs...)
}

// closeTimeout is how long Close lets requests finish; one that hangs on purpose is cut off then.
const closeTimeout = 5 * time.Second

// URL of a repository over HTTP or HTTPS.
func (s *Server) URL(repo string) string {
	scheme := "http"
	if s.options.TLS {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s/%s.git", scheme, s.listener.Addr(), repo)
}

// SSHURL of a repository; empty without an SSH server.
func (s *Server) SSHURL(repo string) string {
	if s.ssh == nil {
		return ""
	}
	return fmt.Sprintf("ssh://git@%s/%s.git", s.ssh.listener.Addr(), repo)
}

// Path of a bare repository on disk.
func (s *Server) Path(repo string) string {
	return filepath.Join(s.root, repo+".git")
}

// CA is the PEM certificate that vouches for an HTTPS server.
func (s *Server) CA() []byte { return s.ca }

// ClientCertificate is a certificate that the server's CA signed for a client, and its key, in PEM form.
func (s *Server) ClientCertificate() (certificate, key []byte) { return s.client[0], s.client[1] }

// Requests returns the request log since the last ResetRequests.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ResetRequests empties the request log.
func (s *Server) ResetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

func (s *Server) record(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}

func (s *Server) startHTTP() error {
	execPath, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return fmt.Errorf("find git: %w", err)
	}
	backend := &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend"),
		Dir:    s.root,
		Env:    append(s.env(), "GIT_PROJECT_ROOT="+s.root, "GIT_HTTP_EXPORT_ALL=1"),
		Stderr: io.Discard,
	}
	var handler http.Handler = s.authenticate(withLength(backend))
	if s.options.Wrap != nil {
		handler = s.options.Wrap(handler)
	}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.http = &http.Server{Handler: s.log(handler), ReadHeaderTimeout: 10 * time.Second, ErrorLog: discardLog()}
	return s.serve()
}

func (s *Server) serve() error {
	if !s.options.TLS {
		go func() { _ = s.http.Serve(s.listener) }() // ends with Close
		return nil
	}
	authority, err := newAuthority()
	if err != nil {
		return errors.Join(err, s.listener.Close())
	}
	s.ca, s.http.TLSConfig = authority.certificate, authority.config
	if s.client[0], s.client[1], err = authority.clientCertificate(); err != nil {
		return errors.Join(err, s.listener.Close())
	}
	if s.options.ClientCertificate {
		authority.config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	go func() { _ = s.http.ServeTLS(s.listener, "", "") }()
	return nil
}

// env keeps the configuration of this machine and its user out of what git does.
func (s *Server) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_AUTHOR_NAME=" + author, "GIT_AUTHOR_EMAIL=" + email,
		"GIT_COMMITTER_NAME=" + author, "GIT_COMMITTER_EMAIL=" + email,
	}
}

func (s *Server) log(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service := r.URL.Query().Get("service")
		if service == "" && r.Method == http.MethodPost {
			service = r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		}
		s.record(Request{r.Method, r.URL.Path, service, r.Header.Get("Authorization") != ""})
		next.ServeHTTP(w, r)
	})
}

func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.mayEnter(r) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "credentials needed", http.StatusUnauthorized)
	})
}

func (s *Server) mayEnter(r *http.Request) bool {
	o := s.options
	switch {
	case o.BearerToken != "":
		return same(r.Header.Get("Authorization"), "Bearer "+o.BearerToken)
	case o.Username != "":
		user, password, _ := r.BasicAuth()
		return same(user, o.Username) && same(password, o.Password)
	}
	return true
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// withLength reads a chunked body, as a large push sends it, before CGI has to name its length.
func withLength(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPush))
			if err != nil {
				http.Error(w, "push too large", http.StatusRequestEntityTooLarge)
				return
			}
			r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		}
		next.ServeHTTP(w, r)
	})
}

// Git runs git in a bare repository and returns what it prints. Its error quotes what git said.
func (s *Server) Git(repo string, args ...string) (string, error) {
	return s.git(s.Path(repo), nil, args...)
}

func (s *Server) git(dir string, stdin io.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, s.env(), stdin
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
