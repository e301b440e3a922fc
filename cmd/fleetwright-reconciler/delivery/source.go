package delivery

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/reconciler"
)

// source is the git adapter as the reconciler wants it.
type source struct {
	secrets         secrets
	insecure, local bool
}

// Resolve asks the server for the commit of the Fleet's ref.
func (s source) Resolve(ctx context.Context, fleet *fleetv1.Fleet) (reconciler.Revision, error) {
	from, err := s.of(ctx, fleet)
	if err != nil {
		return reconciler.Revision{}, err
	}
	revision, err := git.Resolve(ctx, from)
	if err != nil {
		return reconciler.Revision{}, gitFailure(err)
	}
	return reconciler.Revision{Name: revision.String(), Short: revision.Ref, Commit: revision.Commit, Ref: revision.FullName}, nil
}

// Fetch transfers one commit.
func (s source) Fetch(ctx context.Context, fleet *fleetv1.Fleet, revision reconciler.Revision) (reconciler.Tree, error) {
	from, err := s.of(ctx, fleet)
	if err != nil {
		return nil, err
	}
	tree, err := git.Fetch(ctx, from, git.Revision{Ref: revision.Short, Commit: revision.Commit, FullName: revision.Ref})
	if err != nil {
		return nil, gitFailure(err)
	}
	return tree, nil
}

func (s source) of(ctx context.Context, fleet *fleetv1.Fleet) (git.Source, error) {
	spec := fleet.Spec.Source
	out := git.Source{
		URL: spec.URL, Ref: refOf(spec.Ref), Timeout: fleet.Spec.Timeout.Duration, AllowInsecureHTTP: s.insecure, AllowLocal: s.local,
	}
	if spec.SecretRef == nil {
		return out, nil
	}
	data, err := s.secrets.read(ctx, fleet.Namespace, spec.SecretRef.Name)
	if err != nil {
		return out, err
	}
	if out.Auth, err = git.AuthFromSecret(data, spec.URL); err != nil {
		return out, gitFailure(err)
	}
	return out, nil
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
}

func gitFailure(err error) error {
	var failed *git.Error
	if !errors.As(err, &failed) {
		return err
	}
	return &report.Failure{Reason: string(failed.Reason), Message: report.Redact(failed.Message), Stalled: stalled[failed.Reason]}
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
