package plan

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/scope"
	"github.com/fleetwright/fleetwright/pkg/core/window"
)

// References are the objects that NodeWrights refer to, by name.
type References struct {
	Policies map[string]*nwv1.DeploymentPolicy
	Packages map[string]*fleetv1.Package
}

// Resolve reads a NodeWright with everything that it refers to. What cannot be resolved, or asks for something that this
// version does not do, becomes its Problem: it is left alone. Whose it is and what that allows is the
// caller's to say, with Confine.
func (r References) Resolve(nw *nwv1.NodeWright) NodeWright {
	set, unresolved := desired.Resolve(nw, r.Packages)
	out := NodeWright{
		Name: nw.Name, UID: nw.UID, Generation: nw.Generation, Spec: nw.Spec, Desired: set,
		Paused: nw.Paused(), Disabled: nw.Disabled(), Deleting: nw.DeletionTimestamp != nil,
		Created: nw.CreationTimestamp.Time, Finalizer: slices.Contains(nw.Finalizers, fleetv1.UninstallFinalizer),
		Abandon: nw.Annotations[fleetv1.VerbKey(fleetv1.VerbAbandonUninstall)],
		Retry:   nw.Annotations[fleetv1.VerbKey(fleetv1.VerbRetry)], Rerun: nw.Annotations[fleetv1.VerbKey(fleetv1.VerbRerun)],
		Reset: nw.Annotations[fleetv1.VerbKey(fleetv1.VerbReset)], Resume: nw.Annotations[fleetv1.VerbKey(fleetv1.VerbResume)],
	}
	for _, p := range unresolved {
		out.AddProblem(p.Field + ": " + p.Message)
	}
	if name := nw.Spec.DeploymentPolicy; name != "" {
		r.resolvePolicy(&out, name)
	}
	out.checkSelectors()
	return out
}

func (r References) resolvePolicy(out *NodeWright, name string) {
	policy, known := r.Policies[name]
	if !known {
		out.AddProblem(fmt.Sprintf("spec.deploymentPolicy: DeploymentPolicy %q does not exist", name))
		return
	}
	windows, problems := window.ParseAll(policy.Spec.Windows)
	out.Policy, out.Windows = &policy.Spec, windows
	for _, p := range problems {
		out.AddProblem("DeploymentPolicy " + name + ": " + p)
	}
}

func (n *NodeWright) checkSelectors() {
	for _, s := range []struct {
		field    string
		selector *metav1.LabelSelector
	}{{"spec.nodeSelectors", &n.Spec.NodeSelectors}, {"spec.podNonInterruptLabels", &n.Spec.PodNonInterruptLabels}} {
		if _, err := metav1.LabelSelectorAsSelector(s.selector); err != nil {
			n.AddProblem(s.field + ": " + err.Error())
		}
	}
}

// AddProblem adds a sentence to those that say why the object cannot be resolved.
func (n *NodeWright) AddProblem(sentence string) {
	if n.Problem != "" {
		n.Problem += "; "
	}
	n.Problem += sentence
}

// Confine holds the NodeWright to the scope of the Fleet that delivers it (`namespace/name`; nil limits nothing). Validation did
// that to the manifest; here it is done to the object as it is, whoever changed it, and to the scope as it is now. A selector that
// cannot be read lets it touch no node.
func (n *NodeWright) Confine(fleet string, limits *fleetv1.Scope) {
	n.Fleet, n.Limits, n.Scope, n.OutOfScope = fleet, limits, nil, ""
	if limits == nil {
		return
	}
	outside := scope.Violations(limits, n.Desired)
	if limits.NodeSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(limits.NodeSelector)
		if err != nil {
			selector, outside = labels.Nothing(), append(outside, "spec.scope.nodeSelector: "+err.Error())
		}
		n.Scope = selector
	}
	if len(outside) > 0 {
		n.OutOfScope = "outside of the scope of Fleet " + fleet + ": " + strings.Join(outside, "; ")
	}
}

// isHeldBack: what is wanted is not known, or not allowed.
func (n *NodeWright) isHeldBack() bool { return n.Problem != "" || n.OutOfScope != "" }
