package rollout

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/test/cluster"
)

// Who is admitted next can depend on the pods of the cluster; they are read once to explain it. Without the right to see
// the budgets the answer says what it does not know, instead of naming somebody who would not be admitted.
func TestExplainYieldingNodes(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	pod := w.guardedPod(nodes[0])
	w.create(w.yielding("explained"))
	w.grant(explainer)
	c := w.newCommandLine()
	out := c.as(w, explainer).run("explain", "node/"+nodes[0])
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
	out = c.as(w, "narrow").run("explain", "node/"+nodes[1])
	require.Contains(t, out,
		"Note: who is admitted next is not known: user \"narrow\" lacks the right to list poddisruptionbudgets.policy at the cluster scope.\n")
	require.Contains(t, out, "  why:       it is being looked up which nodes have protected pods\n")
}
