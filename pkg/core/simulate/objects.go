package simulate

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Objects are validated, defaulted manifests, which refer to each other.
type Objects struct {
	NodeWrights []*nwv1.NodeWright
	Policies    []*nwv1.DeploymentPolicy
	Packages    []*fleetv1.Package
}

// NodeWrights resolves the objects to what is simulated. Manifests have no UID and no generation: these are taken from
// the cluster's state, where ledger and nodes have any, so that their records count.
func NodeWrights(o Objects, ledger fleetv1.LedgerSpec, nodes []plan.Node) []plan.NodeWright {
	policies := map[string]*nwv1.DeploymentPolicy{}
	for _, p := range o.Policies {
		policies[p.Name] = p
	}
	packages := map[string]*fleetv1.Package{}
	for _, p := range o.Packages {
		packages[p.Name] = p
	}
	var out []plan.NodeWright
	for _, nw := range o.NodeWrights {
		set, problems := desired.Resolve(nw, packages)
		resolved := plan.NodeWright{
			Name: nw.Name, UID: uidOf(nw, ledger, nodes), Generation: max(1, nw.Generation, ledger.Rollouts[nw.Name].Generation),
			Spec: nw.Spec, Desired: set, Paused: nw.Paused(), Disabled: nw.Disabled(),
			Retry:  nw.Annotations[fleetv1.VerbKey(fleetv1.VerbRetry)],
			Resume: nw.Annotations[fleetv1.VerbKey(fleetv1.VerbResume)],
		}
		var words []string
		for _, p := range problems {
			words = append(words, p.Field+": "+p.Message)
		}
		if name := nw.Spec.DeploymentPolicy; name != "" {
			if policy, ok := policies[name]; ok {
				resolved.Policy = &policy.Spec
			} else {
				words = append(words, "spec.deploymentPolicy: DeploymentPolicy \""+name+"\" does not exist")
			}
		}
		resolved.Problem = strings.Join(words, "; ")
		out = append(out, resolved)
	}
	return out
}

// uidOf is the object's UID, or that by which the ledger or the newest record of a node knows it, or an imagined one.
func uidOf(nw *nwv1.NodeWright, ledger fleetv1.LedgerSpec, nodes []plan.Node) types.UID {
	if nw.UID != "" {
		return nw.UID
	}
	if roll, ok := ledger.Rollouts[nw.Name]; ok {
		return roll.UID
	}
	uid, round := types.UID("imagined-nodewright-"+nw.Name), int64(-1)
	for _, n := range nodes {
		if r, ok := n.Records[nw.Name]; ok && r.Round > round && r.NodeWright != "" {
			uid, round = r.NodeWright, r.Round
		}
	}
	return uid
}
