package cluster

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// paged answers lists as an API server does: by namespace and selectors, in the order of its objects, a few at a time.
type paged struct {
	pods    []corev1.Pod
	budgets []policyv1.PodDisruptionBudget
	page    int
	lists   []string // what was asked
	fails   string   // the resource whose second page cannot be read
}

func (p *paged) observer() *Observer {
	api := fake.NewClientset()
	api.PrependReactor("list", "*", p.list)
	return NewObserver(nil, nil, api, "fleetwright")
}

func (p *paged) list(action clienttesting.Action) (bool, runtime.Object, error) {
	list := action.(clienttesting.ListActionImpl)
	resource, options := list.Resource.Resource, list.ListOptions
	p.lists = append(p.lists, resource+" in "+strconv.Quote(list.Namespace)+" where "+options.LabelSelector)
	from, _ := strconv.Atoi(options.Continue)
	if resource == p.fails && from > 0 {
		return true, nil, errors.New("the server is gone")
	}
	if resource == "poddisruptionbudgets" {
		items, next := pageOf(p.budgets, from, p.page)
		return true, &policyv1.PodDisruptionBudgetList{ListMeta: next, Items: items}, nil
	}
	var match []corev1.Pod
	for _, pod := range p.pods {
		selected := list.ListRestrictions.Labels.Matches(labels.Set(pod.Labels)) &&
			list.ListRestrictions.Fields.Matches(labels.Set{"status.phase": string(pod.Status.Phase)})
		if selected && (list.Namespace == "" || list.Namespace == pod.Namespace) {
			match = append(match, pod)
		}
	}
	items, next := pageOf(match, from, p.page)
	return true, &corev1.PodList{ListMeta: next, Items: items}, nil
}

func pageOf[T any](all []T, from, size int) ([]T, metav1.ListMeta) {
	if from+size >= len(all) {
		return all[from:], metav1.ListMeta{}
	}
	return all[from : from+size], metav1.ListMeta{Continue: strconv.Itoa(from + size)}
}

func podOn(name, node, app string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func inPhase(phase corev1.PodPhase, pod corev1.Pod) corev1.Pod {
	pod.Status.Phase = phase
	return pod
}

func inNamespace(namespace string, pod corev1.Pod) corev1.Pod {
	pod.Namespace = namespace
	return pod
}

// podBudget is a budget over the pods of one app that allows so many disruptions.
func podBudget(app string, allowed, expected int32) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, ExpectedPods: expected},
	}
}

func protecting(app string) []plan.OccupancyQuery {
	return []plan.OccupancyQuery{{NodeWright: "tune", Protected: labels.SelectorFromSet(labels.Set{"app": app})}}
}

func TestOccupanciesNameTheFirstProtectedPodOfEachNode(t *testing.T) {
	api := &paged{page: 2, pods: []corev1.Pod{
		podOn("z", "n1", "train"), podOn("b", "n1", "train"), podOn("c", "n1", "train"),
		podOn("pending", "", "train"), // it has no node yet
		inPhase(corev1.PodSucceeded, podOn("done", "n2", "train")), inPhase(corev1.PodFailed, podOn("failed", "n2", "train")),
		inPhase(corev1.PodPending, podOn("pulling", "n3", "train")),
		podOn("web", "n4", "web"),
		inNamespace("other", podOn("a", "n5", "train")),
	}}
	got, err := api.observer().Occupancies(t.Context(), protecting("train"))
	require.NoError(t, err)
	require.Equal(t, map[string]plan.Occupancy{"tune": {
		Protected: map[string]string{"n1": "team/b", "n3": "team/pulling", "n5": "other/a"}, Bound: map[string]string{},
	}}, got)
	require.Equal(t, []string{
		`poddisruptionbudgets in "" where `, `pods in "" where app=train`, `pods in "" where app=train`, `pods in "" where app=train`,
	}, api.lists, "the budgets, and three pages of pods")
}

func TestOccupanciesFollowBudgetsThatAllowNothing(t *testing.T) {
	everything := podBudget("everything", 0, 4)
	everything.Spec.Selector = &metav1.LabelSelector{} // of its namespace
	everything.Namespace = "other"
	nothing := podBudget("nothing", 0, 4)
	nothing.Spec.Selector = nil
	invalid := podBudget("invalid", 0, 1)
	invalid.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	api := &paged{page: 2, pods: []corev1.Pod{
		podOn("web-0", "n1", "web"), podOn("db-0", "n2", "db"), podOn("free-0", "n3", "free"), podOn("invalid", "n4", "invalid"),
		inNamespace("other", podOn("web-0", "n5", "web")), inPhase(corev1.PodSucceeded, podOn("web-1", "n6", "web")),
		podOn("web-2", "", "web"),
	}, budgets: []policyv1.PodDisruptionBudget{
		podBudget("web", 0, 2), podBudget("free", 1, 2), invalid, podBudget("empty", 0, 0), nothing, everything, podBudget("db", 0, 1),
	}}
	queries := append(protecting("db"), plan.OccupancyQuery{NodeWright: "none"})
	got, err := api.observer().Occupancies(t.Context(), queries)
	require.NoError(t, err)
	bound := map[string]string{"n1": "team/web-0", "n2": "team/db-0", "n5": "other/web-0"}
	require.Equal(t, map[string]plan.Occupancy{
		"tune": {Protected: map[string]string{"n2": "team/db-0"}, Bound: bound},
		"none": {Protected: map[string]string{}, Bound: bound},
	}, got, "each query has an answer; budgets are looked at once for all")
	require.NotContains(t, api.lists, `pods in "team" where app=free`, "a budget with room binds nobody")
	require.NotContains(t, api.lists, `pods in "team" where app=empty`, "one without pods is not asked about")
}

func TestOccupanciesSayWhatCannotBeRead(t *testing.T) {
	world := func(fails string) *paged {
		return &paged{page: 1, fails: fails, budgets: []policyv1.PodDisruptionBudget{podBudget("web", 0, 2), podBudget("free", 1, 1)},
			pods: []corev1.Pod{podOn("train-0", "n1", "train"), podOn("train-1", "n2", "train")}}
	}
	for fails, want := range map[string]string{
		"poddisruptionbudgets": "list poddisruptionbudgets: the server is gone",
		"pods":                 "list protected pods of nodewright tune: the server is gone",
	} {
		got, err := world(fails).observer().Occupancies(t.Context(), protecting("train"))
		require.EqualError(t, err, want)
		require.Nil(t, got, "half an answer is none")
	}
	bound := world("pods")
	bound.pods = append(bound.pods, podOn("web-0", "n1", "web"), podOn("web-1", "n1", "web"))
	_, err := bound.observer().Occupancies(t.Context(), protecting("train"))
	require.EqualError(t, err, "list pods of poddisruptionbudget team/web: the server is gone")
}
