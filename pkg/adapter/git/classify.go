package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/skeema/knownhosts"
)

var (
	errTransferLimit = errors.New("transfer limit reached")
	errNotOurRef     = errors.New("server does not hand out this commit")
)

// cause recognizes one kind of failure and words it.
type cause struct {
	is   func(error) bool
	make func(*remote, error) *Error
}

// causes in order: the first that recognizes an error words it.
var causes = []cause{
	{isAny(errTransferLimit), func(r *remote, _ error) *Error {
		return failure(ReasonTooLarge, "%s sent more than %s for one commit; split the repository or raise the limit",
			r.name, size(r.source.Limits.withDefaults().Transfer))
	}},
	{isAny(transport.ErrEmptyRemoteRepository), func(r *remote, _ error) *Error {
		return failure(ReasonEmptyRepository, "repository %s has no commit yet", r.name)
	}},
	{isAny(transport.ErrAuthenticationRequired, transport.ErrAuthorizationFailed, errSSHAuth), refusedCredentials},
	{isAny(transport.ErrRepositoryNotFound), func(r *remote, _ error) *Error {
		return failure(ReasonRepositoryNotFound, "%s does not know this repository, or the credentials may not read it", r.name)
	}},
	{isAny(errProxyAuth), func(r *remote, _ error) *Error {
		return failure(ReasonAuthenticationFailed, "%s refused its credentials (username and password of the Secret of proxySecretRef)", r.proxy())
	}},
	{isProxyRefusal, func(r *remote, err error) *Error {
		var refusal *proxyRefusal
		errors.As(err, &refusal)
		return failure(ReasonUnreachable, "%s does not connect to %s (HTTP status %d)", r.proxy(), r.name, refusal.status)
	}},
	{says("tls: certificate required"), func(r *remote, _ error) *Error {
		return failure(ReasonAuthenticationFailed, "%s wants a client certificate; put tls.crt and tls.key into the Secret", r.name)
	}},
	{says("remote error: tls: "), func(r *remote, _ error) *Error {
		return failure(ReasonAuthenticationFailed, "%s refused the TLS connection%s", r.name, r.withClientCertificate())
	}},
	{isCertificate, func(r *remote, _ error) *Error {
		return failure(ReasonCertificateUnknown,
			"the certificate of %s is not trusted; put the CA that signed it into ca.crt of the Secret", r.name)
	}},
	{knownhosts.IsHostUnknown, unknownHostKey},
	{knownhosts.IsHostKeyChanged, changedHostKey},
	{says("no common algorithm for host key"), changedHostKey},
	{says("known_hosts revoked", "key is revoked", "revoked key"), changedHostKey},
	{isRedirect, func(r *remote, err error) *Error {
		return failure(ReasonUnexpectedAnswer, "%s redirects in a way that is not followed; use the final URL", r.name)
	}},
	{isTimeout, func(r *remote, _ error) *Error {
		return failure(ReasonTimeout, "%s did not finish within %s, while %s%s", r.name, r.source.timeout(), r.stage(), r.timeoutAdvice())
	}},
	{isAny(context.Canceled), func(r *remote, _ error) *Error {
		return failure(ReasonCanceled, "reading %s was canceled, while %s", r.name, r.stage())
	}},
	{isProxyDial, func(r *remote, err error) *Error {
		return failure(ReasonUnreachable, "cannot reach %s on the way to %s: %s", r.proxy(), r.name, rootText(err))
	}},
	{isNetwork, func(r *remote, err error) *Error {
		return failure(ReasonUnreachable, "cannot reach %s, while %s: %s", r.name, r.stage(), rootText(err))
	}},
	{isStatus, func(r *remote, err error) *Error {
		var status *githttp.Err
		errors.As(err, &status)
		reason := ReasonUnexpectedAnswer
		if status.StatusCode() >= 500 || status.StatusCode() == 429 {
			reason = ReasonUnreachable
		}
		return failure(reason, "%s answered with HTTP status %d, while %s", r.name, status.StatusCode(), r.stage())
	}},
}

// classify words the failure of a conversation with a server.
func (r *remote) classify(ctx context.Context, err error) error {
	var already *Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	err = unwrapped(err)
	if ctx.Err() != nil && !errors.Is(err, errTransferLimit) { // what a closed connection says hides why it was closed
		err = errors.Join(ctx.Err(), err)
	}
	for _, c := range causes {
		if c.is(err) {
			return c.make(r, err).because(err)
		}
	}
	return failure(ReasonUnexpectedAnswer, "%s did not answer as a git server does, while %s; check the URL", r.name,
		r.stage()).because(err)
}

// unwrapped takes off go-git's wrappers that do not let errors.As look inside.
func unwrapped(err error) error {
	var unexpected *plumbing.UnexpectedError
	if errors.As(err, &unexpected) {
		return unwrapped(unexpected.Err)
	}
	var permanent *plumbing.PermanentError
	if errors.As(err, &permanent) {
		return unwrapped(permanent.Err)
	}
	return err
}

func refusedCredentials(r *remote, _ error) *Error {
	if r.source.Auth.empty() {
		return failure(ReasonAuthenticationFailed, "%s asks for credentials and none are given; name a Secret in secretRef", r.name)
	}
	return failure(ReasonAuthenticationFailed, "%s refused the credentials (%s)", r.name, r.source.Auth.kind())
}

func unknownHostKey(r *remote, _ error) *Error {
	return failure(ReasonHostKeyUnknown, "known_hosts of the Secret has no key for %s; add the server's line, verified out of band",
		r.endpoint.address())
}

func changedHostKey(r *remote, _ error) *Error {
	return failure(ReasonHostKeyMismatch,
		"%s shows none of the host keys that known_hosts of the Secret has for it (%s); the server's key was changed, or this is another server",
		r.endpoint.address(), strings.Join(r.hostKeyTypes, ", "))
}

func isAny(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

func says(texts ...string) func(error) bool {
	return func(err error) bool {
		for _, text := range texts {
			if strings.Contains(err.Error(), text) {
				return true
			}
		}
		return false
	}
}

func isCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &host)
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

func isNetwork(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) || errors.As(err, &dns)
}

// timeoutAdvice is for the one stage that takes longer the more there is.
func (r *remote) timeoutAdvice() string {
	if r.stage() != stageFetch {
		return ""
	}
	return "; is the timeout long enough for this repository?"
}

// isProxyDial recognizes that the proxy itself cannot be reached.
func isProxyDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "proxyconnect"
}

func (r *remote) withClientCertificate() string {
	if r.source.Auth.client == nil {
		return ""
	}
	return "; does it trust the client certificate (tls.crt of the Secret)?"
}

func isStatus(err error) bool {
	var status *githttp.Err
	return errors.As(err, &status)
}

func isRedirect(err error) bool { return strings.Contains(err.Error(), "http redirect: ") }

// refusesCommit recognizes a server that hands out only the tips of refs.
func refusesCommit(err error) bool {
	var line *pktline.ErrorLine
	return errors.As(err, &line) && (strings.Contains(line.Text, "not our ref") || strings.Contains(line.Text, "unadvertised object")) ||
		errors.Is(err, errNotOurRef) || says("not our ref", "unadvertised object")(err)
}

// rootText is the innermost cause, which holds neither URLs nor credentials: "connection refused", "no such host".
func rootText(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.Err
	}
	var op *net.OpError
	for err != nil && errors.As(err, &op) {
		err = op.Err
	}
	if op != nil {
		return op.Err.Error()
	}
	return "network error"
}
