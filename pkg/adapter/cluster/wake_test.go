package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodeMatters_OnlyWhatAPlanIsMadeFrom(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "a", UID: "1", CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)),
		}}
		if change != nil {
			change(n)
		}
		return n
	}
	for _, c := range []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"nothing", nil, false},
		{"a heartbeat", func(n *corev1.Node) { n.ResourceVersion = "2" }, false},
		{"a label", func(n *corev1.Node) { n.Labels = map[string]string{"pool": "gpu"} }, true},
		{"a cordon", func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		{"another node of the name", func(n *corev1.Node) { n.UID = "2" }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, nodeMatters(node(nil), node(c.change)))
		})
	}
}
