package gitserver

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// sshServer answers git-upload-pack and git-receive-pack and nothing else.
type sshServer struct {
	server   *Server
	config   *ssh.ServerConfig
	hostKeys []ssh.Signer
	listener net.Listener

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	wait   sync.WaitGroup
}

// HostKeys are the public host keys of the SSH server.
func (s *Server) HostKeys() []ssh.PublicKey {
	var keys []ssh.PublicKey
	for _, signer := range s.ssh.hostKeys {
		keys = append(keys, signer.PublicKey())
	}
	return keys
}

// SSHAddress is host:port of the SSH server.
func (s *Server) SSHAddress() string { return s.ssh.listener.Addr().String() }

// NewKey makes an ed25519 key pair: the signer, and the private key as PEM, encrypted where passphrase is set.
func NewKey(passphrase string) (ssh.Signer, []byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("make signer: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return signer, pem.EncodeToMemory(block), nil
}

func (s *Server) startSSH() error {
	server := &sshServer{server: s, hostKeys: s.options.HostKeys, conns: map[net.Conn]bool{}}
	if len(server.hostKeys) == 0 {
		signer, _, err := NewKey("")
		if err != nil {
			return err
		}
		server.hostKeys = []ssh.Signer{signer}
	}
	server.config = &ssh.ServerConfig{PublicKeyCallback: server.authorize}
	for _, key := range server.hostKeys {
		server.config.AddHostKey(key)
	}
	var err error
	if server.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.ssh = server
	server.wait.Go(server.accept)
	return nil
}

func (s *sshServer) authorize(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	known := slices.ContainsFunc(s.server.options.AuthorizedKeys, func(k ssh.PublicKey) bool {
		return bytes.Equal(k.Marshal(), key.Marshal())
	})
	if !known {
		return nil, errors.New("key is not authorized")
	}
	return &ssh.Permissions{}, nil
}

func (s *sshServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		if s.track(conn) {
			s.wait.Go(func() {
				defer s.forget(conn)
				s.serve(conn)
			})
		}
	}
}

func (s *sshServer) track(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return false
	}
	s.conns[conn] = true
	return true
}

func (s *sshServer) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	_ = conn.Close()
}

func (s *sshServer) close() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.wait.Wait()
	return err
}

func (s *sshServer) serve(conn net.Conn) {
	_, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return // a client that does not trust us, or that we do not trust
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		s.session(channel, requests)
	}
}

func (s *sshServer) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer func() { _ = channel.Close() }()
	for request := range requests {
		var payload struct{ Command string }
		if request.Type != "exec" || ssh.Unmarshal(request.Payload, &payload) != nil {
			_ = request.Reply(request.Type == "env", nil)
			continue
		}
		_ = request.Reply(true, nil)
		status := s.run(channel, payload.Command)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		return
	}
}

func (s *sshServer) run(channel ssh.Channel, command string) uint32 {
	service, repo, _ := strings.Cut(command, " ")
	s.server.record(Request{Method: "SSH", Path: command, Service: service, Authorization: true})
	if service != "git-upload-pack" && service != "git-receive-pack" {
		fmt.Fprintf(channel.Stderr(), "only git is served here\n")
		return 1
	}
	repo = path.Clean("/" + strings.Trim(repo, "'"))
	cmd := exec.Command("git", strings.TrimPrefix(service, "git-"), filepath.Join(s.server.root, filepath.FromSlash(repo)))
	cmd.Env, cmd.Stdout, cmd.Stderr = s.server.env(), channel, channel.Stderr()
	stdin, err := cmd.StdinPipe() // not cmd.Stdin: git may end while the client still keeps its side open
	if err != nil || cmd.Start() != nil {
		return 128
	}
	go func() {
		_, _ = io.Copy(stdin, channel) // ends with the channel
		_ = stdin.Close()
	}()
	if err := cmd.Wait(); err != nil {
		return 128
	}
	return 0
}
