package cluster

import (
	"errors"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/adopt"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// NodeView translates a node. Records of another node UID are dropped: they came with a backup of an earlier node.
func NodeView(node *corev1.Node) plan.Node { return nodeViewOf(node, &noderecord.Reader{}) }

func nodeViewOf(node *corev1.Node, reader *noderecord.Reader) plan.Node {
	out := plan.Node{
		Name: node.Name, UID: node.UID, Labels: node.Labels, Taints: node.Spec.Taints,
		Unschedulable: node.Spec.Unschedulable, Ready: isReady(node), BootID: node.Status.NodeInfo.BootID,
		Created: node.CreationTimestamp.Time, CordonOwners: cordonOwners(node.Annotations),
	}
	for key, value := range node.Annotations {
		out.Touched = out.Touched || marksNode(key)
		out.AutoTainted = out.AutoTainted || strings.HasPrefix(key, nwv1.AutoTaintPrefix) && value == nwv1.TrueValue
		if name, ok := strings.CutPrefix(key, fleetv1.RecordPrefix); ok {
			addRecord(&out, reader, name, value)
		} else if name, ok := strings.CutPrefix(key, fleetv1.Group+"/"); ok && isVerb(name) {
			out.Requests = put(out.Requests, name, value)
		}
	}
	out.Unadopted = unadopted(node.Annotations)
	return out
}

// unadopted are the NodeWrights of which NVIDIA's operator left state, without a record of ours: its own never comes alone.
func unadopted(annotations map[string]string) []string {
	return slices.DeleteFunc(adopt.Names(annotations), func(name string) bool {
		_, recorded := annotations[fleetv1.RecordKey(name)]
		return recorded
	})
}

// isVerb reports whether an annotation of ours on a node asks for something.
func isVerb(name string) bool {
	switch name {
	case fleetv1.VerbRetry, fleetv1.VerbRerun, fleetv1.VerbReset, fleetv1.VerbRegate:
		return true
	}
	return false
}

// marksNode reports whether a NodeWright, of NVIDIA's operator or ours, has had to do with a node that has this annotation.
func marksNode(key string) bool {
	for _, prefix := range []string{nwv1.Group + "/", nwv1.LegacyGroup + "/", fleetv1.RecordPrefix} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

func addRecord(out *plan.Node, reader *noderecord.Reader, name, value string) {
	record, found, err := reader.Read(value, out.UID)
	switch {
	case err != nil:
		out.Malformed = put(out.Malformed, name, err.Error())
		if newer := (*noderecord.NewerError)(nil); errors.As(err, &newer) {
			out.Newer = append(out.Newer, name)
		}
	case found:
		out.Records = put(out.Records, reader.Word(name), record)
	}
}

func put[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[key] = value
	return m
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// cordonOwners are the names behind the cordon annotations that count, sorted.
func cordonOwners(annotations map[string]string) []string {
	var out []string
	for key, value := range annotations {
		if name, ok := strings.CutPrefix(key, nwv1.CordonPrefix); ok && value == nwv1.TrueValue {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// nodeViews translates each change of a node once; what the records of many nodes have in common is kept once. It is safe
// for concurrent use.
type nodeViews struct {
	mu     sync.Mutex
	seen   map[types.UID]nodeView
	reader noderecord.Reader
	gone   []types.UID // see Observer.awaitJobsOfVanished
}

type nodeView struct {
	resourceVersion string
	view            plan.Node
}

// of returns the views of the nodes and forgets every other node.
func (v *nodeViews) of(nodes []corev1.Node) []plan.Node {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]plan.Node, 0, len(nodes))
	next := make(map[types.UID]nodeView, len(nodes))
	for i := range nodes {
		entry, ok := v.seen[nodes[i].UID]
		if !ok || entry.resourceVersion != nodes[i].ResourceVersion {
			entry = nodeView{nodes[i].ResourceVersion, nodeViewOf(&nodes[i], &v.reader)}
		}
		next[nodes[i].UID] = entry
		out = append(out, entry.view)
	}
	for uid := range v.seen {
		if _, there := next[uid]; !there {
			v.gone = append(v.gone, uid)
		}
	}
	v.seen = next
	return out
}
