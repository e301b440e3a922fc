package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/pkg/adapter/githubapp"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/reconciler"
)

// source is the git adapter as the reconciler wants it.
type source struct {
	secrets         secrets
	apps            *githubapp.Tokens
	insecure, local bool
}

// Resolve asks the server for the commit of the Fleet's ref.
func (s source) Resolve(ctx context.Context, fleet *fleetv1.Fleet) (reconciler.Revision, error) {
	from, err := s.of(ctx, fleet)
	if err != nil {
		return reconciler.Revision{}, err
	}
	revision, err := git.Resolve(ctx, from.Source)
	if err != nil {
		return reconciler.Revision{}, from.failure(err)
	}
	return reconciler.Revision{Name: revision.String(), Short: revision.Ref, Commit: revision.Commit, Ref: revision.FullName}, nil
}

// Fetch transfers one commit.
func (s source) Fetch(ctx context.Context, fleet *fleetv1.Fleet, revision reconciler.Revision) (reconciler.Tree, error) {
	from, err := s.of(ctx, fleet)
	if err != nil {
		return nil, err
	}
	tree, err := git.Fetch(ctx, from.Source, git.Revision{Ref: revision.Short, Commit: revision.Commit, FullName: revision.Ref})
	if err != nil {
		return nil, from.failure(err)
	}
	return tree, nil
}

// opened is a source with its credentials.
type opened struct {
	git.Source
	app *githubapp.App // whose token opens it
	s   source
}

// failure drops a token that was refused, so that the next attempt asks for a new one.
func (o opened) failure(err error) error {
	var failed *git.Error
	if o.app != nil && errors.As(err, &failed) && failed.Reason == git.ReasonAuthenticationFailed {
		o.s.apps.Forget(*o.app)
	}
	return gitFailure(err)
}

// of reads what the Fleet's source names. Its errors are ready to be reported.
func (s source) of(ctx context.Context, fleet *fleetv1.Fleet) (opened, error) {
	spec := fleet.Spec.Source
	out := opened{s: s, Source: git.Source{
		URL: spec.URL, Ref: refOf(spec.Ref), Timeout: fleet.Spec.Timeout.Duration, AllowInsecureHTTP: s.insecure, AllowLocal: s.local,
		RecurseSubmodules: spec.RecurseSubmodules,
	}}
	for _, add := range []func(context.Context, *fleetv1.Fleet, *opened) error{s.addProxy, s.addKeys, s.addLogin} {
		if err := add(ctx, fleet, &out); err != nil {
			return out, gitFailure(err)
		}
	}
	return out, nil
}

func (s source) addProxy(ctx context.Context, fleet *fleetv1.Fleet, out *opened) error {
	ref := fleet.Spec.Source.ProxySecretRef
	if ref == nil {
		return nil
	}
	data, err := s.secrets.read(ctx, fleet.Namespace, ref.Name)
	if err != nil {
		return err
	}
	out.Proxy, err = git.ProxyFromSecret(data)
	return err
}

func (s source) addKeys(ctx context.Context, fleet *fleetv1.Fleet, out *opened) error {
	v := fleet.Spec.Source.Verify
	if v == nil {
		return nil
	}
	data, err := s.secrets.read(ctx, fleet.Namespace, v.SecretRef.Name)
	if err != nil {
		return err
	}
	keys, err := git.PublicKeysFromSecret(data)
	out.Verify = &git.Verify{Mode: git.VerifyMode(v.Mode), Keys: keys}
	return err
}

func (s source) addLogin(ctx context.Context, fleet *fleetv1.Fleet, out *opened) error {
	spec := fleet.Spec.Source
	if spec.SecretRef == nil {
		return nil
	}
	data, err := s.secrets.read(ctx, fleet.Namespace, spec.SecretRef.Name)
	if err != nil {
		return err
	}
	if githubapp.Is(data) {
		if data, out.app, err = s.exchange(ctx, out.Source, data); err != nil {
			return err
		}
	}
	out.Auth, err = git.AuthFromSecret(data, spec.URL)
	return err
}

// exchange replaces the key of a GitHub App by a token of its installation, for the host that the App is of and for no other.
func (s source) exchange(ctx context.Context, from git.Source, data map[string][]byte) (map[string][]byte, *githubapp.App, error) {
	app, err := githubapp.FromSecret(data)
	if err != nil {
		return nil, nil, err
	}
	if u, err := url.Parse(from.URL); err != nil || !strings.EqualFold(u.Hostname(), app.Host()) || u.Scheme == "ssh" {
		return nil, nil, &githubapp.Error{Reason: githubapp.ReasonInvalidSecret, Message: fmt.Sprintf(
			"the Secret of secretRef is of a GitHub App, whose token is for https://%s and no other server; check the url and %s",
			app.Host(), githubapp.KeyBaseURL)}
	}
	transport, err := git.APITransport(from, data)
	if err != nil {
		return nil, nil, err
	}
	defer transport.CloseIdleConnections()
	token, err := s.apps.Token(ctx, app, transport)
	if err != nil {
		return nil, nil, err
	}
	out := maps.Clone(data)
	out["username"], out["password"] = []byte(githubapp.User), []byte(token)
	delete(out, "bearerToken")
	return out, &app, nil
}

func refOf(ref *fleetv1.GitRef) git.Ref {
	if ref == nil || *ref == (fleetv1.GitRef{}) {
		return git.Ref{Branch: fleetv1.DefaultBranch}
	}
	return git.Ref{Branch: ref.Branch, Tag: ref.Tag, SemVer: ref.SemVer, Commit: ref.Commit}
}

// stalled are the reasons that only a change of the Fleet or of the commit cures. All others may pass: a branch is pushed
// again, a Secret or a server's key is corrected.
var stalled = map[git.Reason]bool{
	git.ReasonInsecureURL: true, git.ReasonUnsupportedURL: true, git.ReasonInvalidRef: true,
	git.ReasonTooLarge: true, git.ReasonInvalidTree: true,
	git.ReasonSignatureMissing: true, git.ReasonSignatureKeyUnknown: true, git.ReasonSignatureInvalid: true,
	git.ReasonSubmoduleElsewhere: true, git.ReasonSubmoduleInvalid: true,
}

func gitFailure(err error) error {
	var failed *git.Error
	var app *githubapp.Error
	switch {
	case errors.As(err, &failed):
		return &report.Failure{Reason: string(failed.Reason), Message: report.Redact(failed.Message), Stalled: stalled[failed.Reason]}
	case errors.As(err, &app):
		return &report.Failure{Reason: string(app.Reason), Message: report.Redact(app.Message), Stalled: stalled[git.Reason(app.Reason)]}
	}
	return err
}

// secrets reads Secrets one by one: the roles allow nothing else, and nothing of them stays in memory.
type secrets struct{ reader client.Reader }

func (s secrets) read(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, secretFailure("Secret %s/%s does not exist", namespace, name)
	case apierrors.IsForbidden(err):
		return nil, secretFailure("Secret %s/%s may not be read: add the namespace to fleet.namespaces of the chart", namespace, name)
	case err != nil:
		return nil, fmt.Errorf("read secret: %w", err)
	}
	return secret.Data, nil
}

func secretFailure(format string, args ...any) *report.Failure {
	return &report.Failure{Reason: string(git.ReasonInvalidSecret), Message: fmt.Sprintf(format, args...)}
}
