package explain

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// NotFoundError says that there is no such object, and names ones whose names are close.
type NotFoundError struct {
	Target
	// Close are existing names, the closest first.
	Close []string
	// Existing is how many objects of the kind there are.
	Existing int
}

// Error implements error.
func (e *NotFoundError) Error() string {
	out := fmt.Sprintf("%s %q does not exist", e.Kind, e.Name)
	switch {
	case len(e.Close) > 0:
		return out + "; close to it: " + strings.Join(e.Close, ", ")
	case e.Existing == 0:
		return fmt.Sprintf("%s: the cluster has no %s", out, e.Kind)
	case e.Existing == 1:
		return fmt.Sprintf("%s: the cluster has one other %s", out, e.Kind)
	}
	return fmt.Sprintf("%s: the cluster has %d others", out, e.Existing)
}

// refusal is how the API server words a missing right.
var refusal = regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)" (at the cluster scope|in the namespace "[^"]*")`)

// Word says in one sentence what an API server's refusal means here; other errors are returned as they are.
func Word(err error) error {
	switch {
	case apierrors.IsForbidden(err):
		m := refusal.FindStringSubmatch(err.Error())
		if m == nil {
			return err
		}
		resource := m[3]
		if m[4] != "" {
			resource += "." + m[4]
		}
		return fmt.Errorf("user %q lacks the right to %s %s %s", m[1], m[2], resource, m[5])
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster does not accept the credentials: %w", err)
	case meta.IsNoMatchError(err):
		missing := &meta.NoKindMatchError{}
		if errors.As(err, &missing) {
			return fmt.Errorf("the cluster does not know the kind %s: Fleetwright is not installed there", missing.GroupKind)
		}
	}
	return err
}
