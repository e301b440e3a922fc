package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/explain"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// explainNode is what the command prints for that user.
func (w *world) explainNode(user, name string) string {
	w.t.Helper()
	config, err := w.c.User(user)
	require.NoError(w.t, err)
	source, err := explain.NewSource(config, namespace, time.Now)
	require.NoError(w.t, err)
	picture, err := source.Gather(w.ctx(), explain.Target{Kind: explain.Node, Name: name})
	require.NoError(w.t, err)
	return picture.Node(name).Text(time.Now())
}

// Who is admitted next can depend on the pods of the cluster; they are read once to explain it. Without the right to see
// the budgets the answer says what it does not know, instead of naming somebody who would not be admitted.
func TestExplainYieldingNodes(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	pod := w.guardedPod(nodes[0])
	w.create(w.yielding("explained"))
	w.grant(explainer)
	out := w.explainNode(explainer, nodes[0])
	require.Contains(t, out, strings.Join([]string{
		"nodewright explained: Yielding",
		"  why:        the node is left alone until its protected pods have finished: default/" + pod.Name,
		"  waits for:  pod default/" + pod.Name,
	}, "\n"))
	require.Contains(t, out, "  until:      the pod has finished\n")
	require.NoError(t, w.c.Audit().Sync(w.ctx()))
	lists, err := w.c.Audit().Events(cluster.Match{User: explainer, Verb: "list", Resource: "pods"})
	require.NoError(t, err)
	wide := 0
	for _, e := range lists {
		if e.Received.After(w.began) && strings.Contains(e.URI, "labelSelector=guarded") {
			wide++
		}
	}
	require.Equal(t, 1, wide)

	role := &rbacv1.ClusterRole{}
	require.NoError(t, w.admin.Get(w.ctx(), client.ObjectKey{Name: "fleetwright-explain"}, role))
	narrow := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: w.prefix}}
	for _, rule := range role.Rules {
		if rule.APIGroups[0] != "policy" {
			narrow.Rules = append(narrow.Rules, rule)
		}
	}
	w.put(narrow)
	w.put(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.prefix}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "narrow"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: w.prefix},
	})
	out = w.explainNode("narrow", nodes[1])
	require.Contains(t, out,
		"Note: who is admitted next is not known: user \"narrow\" lacks the right to list poddisruptionbudgets.policy at the cluster scope.\n")
	require.Contains(t, out, "  why:       it is being looked up which nodes have protected pods\n")
}
