package cluster

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// A budget that is not counted yet answers "come back in ten seconds". The client would do so by itself, ten times, while
// every other node waits.
func TestRefusedEvictionIsNotRepeatedByTheClient(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		require.Equal(t, "/api/v1/namespaces/web/pods/a/eviction", r.URL.Path)
		w.Header().Set("Retry-After", "10")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"message":"wait",` +
			`"details":{"retryAfterSeconds":10,"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web is still being processed by the server."}]}}`))
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	require.NoError(t, err)
	a := &Actor{client: client}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out report.Outcome
	d := plan.Decision{Evict: []plan.Eviction{{Namespace: "web", Name: "a", UID: "u"}}}
	require.NoError(t, a.evict(ctx, d, &out))
	require.EqualValues(t, 1, asked.Load())
	require.Equal(t, report.EvictionRefused, out.Evictions[0].Result)
	require.Equal(t, "web", out.Evictions[0].Budget)
}

func strayPod(phase corev1.PodPhase, ended ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{
			fleetv1.NodeUIDLabel: "n", fleetv1.NodeWrightUIDLabel: "u", nwv1.NameLabel: "tune", fleetv1.PackageNameLabel: "tuning",
			fleetv1.PhaseLabel: "install", fleetv1.RoundLabel: "3", fleetv1.AttemptLabel: "2", batchv1.JobNameLabel: "job",
		}},
		Spec: corev1.PodSpec{NodeName: "node"}, Status: corev1.PodStatus{Phase: phase},
	}
	for _, name := range []string{"tuning-init", "tuning-apply", "tuning-applycheck", "tuning-config", "tuning-configcheck"} {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{Name: name})
	}
	for i := range ended {
		pod.Status.InitContainerStatuses[i].State.Terminated = &corev1.ContainerStateTerminated{}
	}
	return pod
}

// A pod of ours without its Job is an execution all the same: it is at work, or it ended well.
func TestStrayExecutions(t *testing.T) {
	key := plan.ExecutionKey{NodeWright: "tune", NodeWrightUID: "u", NodeUID: "n", Round: 3, Package: "tuning", Phase: plan.PhaseInstall, Attempt: 2}
	e, found := strayExecution(strayPod(corev1.PodRunning, "tuning-init", "tuning-apply", "tuning-applycheck"))
	require.True(t, found)
	require.Equal(t, plan.Execution{
		ExecutionKey: key, Name: "job", Node: "node", State: plan.ExecutionRunning, Done: []nwv1.Stage{nwv1.StageApply}, Created: e.Created,
	}, e)
	e, found = strayExecution(strayPod(corev1.PodSucceeded, "tuning-init", "tuning-apply", "tuning-applycheck", "tuning-config", "tuning-configcheck"))
	require.True(t, found)
	require.Equal(t, plan.ExecutionSucceeded, e.State)
	require.Equal(t, []nwv1.Stage{nwv1.StageApply, nwv1.StageConfig}, e.Done)
	_, found = strayExecution(strayPod(corev1.PodFailed))
	require.False(t, found, "it may have been killed with its Job")
	foreign := strayPod(corev1.PodRunning)
	delete(foreign.Labels, fleetv1.NodeUIDLabel)
	_, found = strayExecution(foreign)
	require.False(t, found)

	stray, seen := strays(podsByJob([]corev1.Pod{*strayPod(corev1.PodRunning)}), nil), []plan.Execution{{Name: "job"}}
	require.Len(t, stray, 1)
	require.Empty(t, strays(podsByJob([]corev1.Pod{*strayPod(corev1.PodRunning)}), seen), "a Job of that name speaks for itself")
}

// What the agent reports as JSON is read as a sentence.
func TestQuoteOfTheAgent(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct{ message, want string }{
		"sentence and lines": {
			`{"stage":"apply","outcome":"failed","step":"two","exitCode":42,"message":"step two returned 42 (accepted: 0)","lines":["first","no space left"],"seconds":0.1}`,
			"step two returned 42 (accepted: 0): first\nno space left"},
		"no lines":           {`{"stage":"apply","outcome":"refused","exitCode":0,"message":"another machine","seconds":0}`, "another machine"},
		"the last that fit":  {`{"outcome":"failed","message":"step two returned 42","lines":["` + long + `","end"]}`, "step two returned 42: end"},
		"none fits":          {`{"outcome":"failed","message":"step two returned 42","lines":["` + long + `"]}`, "step two returned 42"},
		"a long sentence":    {`{"outcome":"failed","message":"` + long + `"}`, long[:249] + "…"},
		"JSON of a package":  {`{"error":"no space"}`, `{"error":"no space"}`},
		"what is not JSON":   {"{ echo", "{ echo"},
		"cut by the kubelet": {`{"outcome":"failed","mess`, `{"outcome":"failed","mess`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, quote(&batchv1.Job{}, c.message))
		})
	}
}
