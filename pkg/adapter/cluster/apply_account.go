package cluster

import (
	"fmt"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// lacks is how the API server words a right that a user does not have.
var lacks = regexp.MustCompile(`cannot (\S+) resource "([^"]*)" in API group "([^"]*)"`)

// failed words a write that did not succeed. A right that is missing is told apart: who lacks which verb on which object.
func (a *Applier) failed(what, object string, err error) *report.Failure {
	if right := lacks.FindStringSubmatch(err.Error()); apierrors.IsForbidden(err) && a.account.Name != "" && right != nil {
		return &report.Failure{Reason: report.ReasonAccountForbidden, Message: a.lacking(right[1], right[2], right[3], object)}
	}
	return &report.Failure{Reason: report.ReasonApplyFailed, Message: fmt.Sprintf("%s %s: %s", what, object, serverSentence(err))}
}

func (a *Applier) lacking(verb, resource, group, object string) string {
	if verb == "impersonate" {
		return fmt.Sprintf("the reconciler may not act as service account %s: add the namespace to fleet.namespaces of the chart", a.account)
	}
	if group != "" {
		resource += "." + group
	}
	return fmt.Sprintf("service account %s may not %s %s: it lacks the verb %s on %s", a.account, verb, object, verb, resource)
}
