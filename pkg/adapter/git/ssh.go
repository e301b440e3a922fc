package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
)

var errSSHAuth = errors.New("ssh: authentication failed")

// sshSession speaks with git-upload-pack over SSH. go-git's own client reads ~/.ssh/config, falls back to the agent, and has
// no time limit for the handshake; this one does none of that.
type sshSession struct {
	remote *remote
	client *ssh.Client
	run    *ssh.Session
	stdin  io.WriteCloser
	stdout io.Reader
	stderr *bytes.Buffer
	stop   func() bool
	refs   *packp.AdvRefs
}

func (r *remote) openSSH(ctx context.Context) (session, error) {
	config, err := r.sshConfig()
	if err != nil {
		return nil, err
	}
	address := r.endpoint.address()
	conn, err := new(net.Dialer).DialContext(httptrace.WithClientTrace(ctx, r.dialTrace()), "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &sshSession{remote: r, stderr: new(bytes.Buffer)}
	s.stop = context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends every read and write of the session
	r.enter("agreeing on SSH")
	secured, channels, requests, err := ssh.NewClientConn(&meteredConn{Conn: conn, reader: r.meter.wrap(conn)}, address, config)
	if err != nil {
		s.stop()
		_ = conn.Close()
		return nil, loginError(err)
	}
	s.client = ssh.NewClient(secured, channels, requests)
	if err := s.start(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (r *remote) sshConfig() (*ssh.ClientConfig, error) {
	auth := r.source.Auth
	if auth.signer == nil || auth.hosts == nil {
		return nil, failure(ReasonAuthenticationFailed, "%s needs a Secret with identity and known_hosts; name it in secretRef", r.name)
	}
	r.hostKeyTypes = auth.hosts.algorithms(r.endpoint.address())
	if len(r.hostKeyTypes) == 0 {
		return nil, unknownHostKey(r, nil)
	}
	user := r.endpoint.user
	if user == "" {
		user = "git"
	}
	known := auth.hosts.db.HostKeyCallback()
	return &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(auth.signer)}, HostKeyAlgorithms: r.hostKeyTypes,
		HostKeyCallback: func(host string, address net.Addr, key ssh.PublicKey) error {
			defer r.enter("logging in")
			return known(host, address, key)
		},
	}, nil
}

// loginError tells a refused key apart; the library has no type for it.
func loginError(err error) error {
	if strings.Contains(err.Error(), "unable to authenticate") {
		return errors.Join(errSSHAuth, err)
	}
	return err
}

func (s *sshSession) start() (err error) {
	if s.run, err = s.client.NewSession(); err != nil {
		return err
	}
	if s.stdin, err = s.run.StdinPipe(); err != nil {
		return err
	}
	if s.stdout, err = s.run.StdoutPipe(); err != nil {
		return err
	}
	s.run.Stderr = &capped{buffer: s.stderr, left: 4096}
	return s.run.Start("git-upload-pack " + shellQuote(s.remote.endpoint.path))
}

// AdvertisedReferencesContext reads what the server offers. The context of openSSH bounds it.
func (s *sshSession) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	if s.refs != nil {
		return s.refs, nil
	}
	s.remote.enter("listing the refs")
	refs := packp.NewAdvRefs()
	err := refs.Decode(s.stdout)
	switch {
	case errors.Is(err, packp.ErrEmptyInput):
		return nil, s.explain(err)
	case errors.Is(err, packp.ErrEmptyAdvRefs), err == nil && refs.IsEmpty():
		return nil, transport.ErrEmptyRemoteRepository
	case err != nil:
		return nil, err
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	s.refs = refs
	return refs, nil
}

// explain turns a server that hung up without a word into what it wrote to stderr.
func (s *sshSession) explain(err error) error {
	_ = s.stdin.Close() // some servers wait for our end
	_ = s.run.Wait()    // after this stderr is complete
	said := strings.ToLower(s.stderr.String())
	if strings.Contains(said, "not found") || strings.Contains(said, "does not") || strings.Contains(said, "no such") ||
		strings.Contains(said, "denied") || strings.Contains(said, "could not") {
		return fmt.Errorf("%w: %w", transport.ErrRepositoryNotFound, err)
	}
	return err
}

// UploadPack asks for a pack. The response is read from the session, which the caller closes.
func (s *sshSession) UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if _, err := s.AdvertisedReferencesContext(ctx); err != nil {
		return nil, err
	}
	s.remote.enter(stageFetch)
	if err := req.UploadRequest.Encode(s.stdin); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	if err := pktline.NewEncoder(s.stdin).EncodeString("done\n"); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	if err := s.stdin.Close(); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	res := packp.NewUploadPackResponse(req)
	if err := res.Decode(io.NopCloser(s.stdout)); err != nil {
		_ = s.run.Wait()
		if refusesCommit(errors.New(s.stderr.String())) {
			return nil, errNotOurRef
		}
		return nil, err
	}
	return res, nil
}

// Close ends the conversation politely where nothing was asked for, and closes the connection.
func (s *sshSession) Close() error {
	defer s.stop()
	if s.stdin != nil {
		_, _ = s.stdin.Write(pktline.FlushPkt) // a finished or broken session no longer reads it
	}
	_ = s.client.Close() // already closed where the context has ended
	return nil
}

// shellQuote makes one argument of a path for the shell that some servers run the command in.
func shellQuote(path string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(path) + "'"
}

type meteredConn struct {
	net.Conn
	reader io.Reader
}

func (c *meteredConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

// capped keeps the beginning of what is written to it.
type capped struct {
	buffer *bytes.Buffer
	left   int
}

func (c *capped) Write(p []byte) (int, error) {
	keep := min(len(p), c.left)
	c.left -= keep
	_, _ = c.buffer.Write(p[:keep]) // a buffer does not fail
	return len(p), nil
}
