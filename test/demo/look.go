package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/lab"
)

// paths of the kinds that the demo shows, with every namespace.
var paths = map[string]string{
	"fleets":      "/apis/fleetwright.dev/v1alpha1/fleets",
	"nodewrights": "/apis/nodewright.nvidia.com/v1alpha1/nodewrights",
}

// table is what `kubectl get` prints: the server's own table.
func (l *stage) table(ctx context.Context, what string) (string, error) {
	clientset, err := kubernetes.NewForConfig(l.Admin)
	if err != nil {
		return "", err
	}
	data, err := clientset.RESTClient().Get().AbsPath(paths[what]).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("get %s: %w", what, err)
	}
	var t metav1.Table
	if err := json.Unmarshal(data, &t); err != nil {
		return "", fmt.Errorf("read table of %s: %w", what, err)
	}
	return printTable(t), nil
}

func printTable(t metav1.Table) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	var shown []int
	for i, c := range t.ColumnDefinitions {
		if c.Priority == 0 {
			shown = append(shown, i)
			fmt.Fprintf(w, "%s\t", strings.ToUpper(c.Name))
		}
	}
	fmt.Fprintln(w)
	for _, row := range t.Rows {
		for _, i := range shown {
			cell := ""
			if row.Cells[i] != nil {
				cell = fmt.Sprint(row.Cells[i])
			}
			if r := []rune(cell); len(r) > 90 {
				cell = string(r[:89]) + "…"
			}
			fmt.Fprintf(w, "%s\t", cell)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // a strings.Builder never fails
	return b.String()
}

// nodesTable counts the nodes by tier and by what kubectl shows in the STATUS column.
func (l *stage) nodesTable(ctx context.Context) (string, error) {
	nodes := &corev1.NodeList{}
	if err := l.Client.List(ctx, nodes); err != nil {
		return "", err
	}
	byTier := map[string]map[string][]string{}
	for _, n := range nodes.Items {
		tier := n.Labels["tier"]
		if byTier[tier] == nil {
			byTier[tier] = map[string][]string{}
		}
		state := nodeState(n)
		byTier[tier][state] = append(byTier[tier][state], n.Name)
	}
	var b strings.Builder
	for _, tier := range sortedKeys(byTier) {
		for _, state := range sortedKeys(byTier[tier]) {
			names := byTier[tier][state]
			fmt.Fprintf(&b, "%-9s %-25s %2d  %s\n", tier, state, len(names), shorten(names))
		}
	}
	return b.String(), nil
}

func nodeState(n corev1.Node) string {
	state := "NotReady"
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			state = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		state += ",SchedulingDisabled"
	}
	return state
}

func shorten(names []string) string {
	if len(names) > 4 {
		return fmt.Sprintf("%s … %s", names[0], names[len(names)-1])
	}
	return strings.Join(names, " ")
}

func (l *stage) noneCordoned(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := l.Client.List(ctx, nodes); err != nil {
		return err
	}
	for _, n := range nodes.Items {
		if n.Spec.Unschedulable {
			return fmt.Errorf("node %s is still cordoned", n.Name)
		}
	}
	return nil
}

// fleetCondition is what the Fleet says of itself, for an error.
func (l *stage) fleetCondition(ctx context.Context) string {
	f := &fleetv1.Fleet{}
	if err := l.Client.Get(ctx, types.NamespacedName{Namespace: lab.Namespace, Name: fleetName}, f); err != nil {
		return ""
	}
	var b strings.Builder
	for _, c := range f.Status.Conditions {
		fmt.Fprintf(&b, "; %s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}

// showOffline runs what a pull request's CI runs: it needs no cluster.
func showOffline(ctx context.Context, o options, s *screen) error {
	s.say("fleetwright validate %s", o.repository)
	out, err := exec.CommandContext(ctx, o.fleetwright, "validate", o.repository).CombinedOutput()
	s.block(string(out))
	if err != nil {
		return fmt.Errorf("validate the example repository: %w", err)
	}
	files, err := lab.ReadRepository(o.repository)
	if err != nil {
		return err
	}
	for _, name := range []string{"fixed", "linear", "by-tier"} {
		s.say("bases/policies/%s.yaml", name)
		s.block(files["bases/policies/"+name+".yaml"])
	}
	return nil
}
