package simulate

import (
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
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
	refs := plan.References{Policies: map[string]*nwv1.DeploymentPolicy{}, Packages: map[string]*fleetv1.Package{}}
	for _, p := range o.Policies {
		refs.Policies[p.Name] = p
	}
	for _, p := range o.Packages {
		refs.Packages[p.Name] = p
	}
	var out []plan.NodeWright
	for _, nw := range o.NodeWrights {
		resolved := refs.Resolve(nw)
		resolved.UID = uidOf(nw, ledger, nodes)
		resolved.Spec.VerifyInterval = nil // what a host drifted to cannot be imagined
		resolved.Generation = max(1, nw.Generation, ledger.Rollouts[nw.Name].Generation)
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
