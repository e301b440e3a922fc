package plan

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/window"
)

// References are the objects that NodeWrights refer to, by name.
type References struct {
	Policies map[string]*nwv1.DeploymentPolicy
	Packages map[string]*fleetv1.Package
}

// Resolve reads a NodeWright with everything that it refers to. What cannot be resolved, or asks for something that this
// version does not do, becomes its Problem: it is left alone. The Scope is the caller's.
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
