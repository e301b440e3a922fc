package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

func withCause(err *apierrors.StatusError, cause metav1.CauseType, message string) error {
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: cause, Message: message}}
	return err
}

func tooMany(seconds int) *apierrors.StatusError {
	return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", seconds)
}

func TestEvictionOutcomesAreToldApart(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	forbidden := func() *apierrors.StatusError { return apierrors.NewForbidden(pods, "p", errors.New("no")) }
	for name, c := range map[string]struct {
		err    error
		want   report.EvictionResult
		budget string
		says   string
		after  time.Duration
	}{
		"accepted": {nil, report.EvictionAccepted, "", "", 0},
		"gone":     {apierrors.NewNotFound(pods, "p"), report.EvictionGone, "", `pods "p" not found`, 0},
		"replaced": {apierrors.NewConflict(pods, "p", errors.New("uid mismatch")), report.EvictionReplaced, "",
			`Operation cannot be fulfilled on pods "p": uid mismatch`, 0},
		"refused": {withCause(tooMany(0), policyv1.DisruptionBudgetCause, "The disruption budget web needs 3 healthy pods and has 3 currently"),
			report.EvictionRefused, "web", "it needs 3 healthy pods and has 3 currently", 0},
		"refused for now": {withCause(tooMany(10), policyv1.DisruptionBudgetCause, "The disruption budget web is still being processed by the server."),
			report.EvictionRefused, "web", "it is still being processed by the server", 10 * time.Second},
		"refused in words of another release": {withCause(tooMany(0), policyv1.DisruptionBudgetCause, "no"), report.EvictionRefused, "", "no", 0},
		"throttled":                           {apierrors.NewTooManyRequests("slow down", 3), report.EvictionThrottled, "", "slow down", 3 * time.Second},
		"namespace": {withCause(forbidden(), corev1.NamespaceTerminatingCause, "being terminated"),
			report.EvictionNamespaceTerminating, "", `pods "p" is forbidden: no`, 0},
		"forbidden": {forbidden(), report.EvictionForbidden, "", `pods "p" is forbidden: no`, 0},
		"two budgets": {apierrors.NewInternalError(errors.New("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")),
			report.EvictionSeveralBudgets, "", "Internal error occurred: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", 0},
		"webhook": {apierrors.NewInternalError(errors.New(`failed calling webhook "x"`)), report.EvictionError, "",
			`Internal error occurred: failed calling webhook "x"`, 0},
		"network": {errors.New("dial tcp 10.0.0.1:443: connection refused"), report.EvictionError, "", "the API server could not be reached", 0},
		"hanging": {context.DeadlineExceeded, report.EvictionError, "", "the API server did not answer in time", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := evictionOutcome(plan.Eviction{Namespace: "ns", Name: "p", UID: "u", Delete: true}, c.err)
			require.Equal(t, report.EvictionOutcome{
				Namespace: "ns", Name: "p", UID: "u", Deletion: true, Result: c.want, Budget: c.budget, Message: c.says, RetryAfter: c.after,
			}, got)
		})
	}
}

// evicting is an actor before a server that answers as it is told, and what was asked of it.
func evicting(t *testing.T, answer func(pod string) (int, http.Header)) (*Actor, func() []string) {
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pod := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/ns/pods/"), "/")[0]
		mu.Lock()
		asked = append(asked, r.Method+" "+pod)
		mu.Unlock()
		code, header := answer(pod)
		for k := range header {
			w.Header().Set(k, header.Get(k))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: int32(code)})
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	require.NoError(t, err)
	return &Actor{client: client}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), asked...)
	}
}

func evictionsOf(n int, remove bool) plan.Decision {
	d := plan.Decision{NodeUID: "n"}
	for i := range n {
		name := fmt.Sprintf("p%02d", i)
		d.Evict = append(d.Evict, plan.Eviction{Namespace: "ns", Name: name, UID: "u", Delete: remove})
	}
	return d
}

// A refusal is answered for at once, also where the server says when to come back, and every pod is asked once.
func TestEvictAsksEachPodOnce(t *testing.T) {
	for _, remove := range []bool{false, true} {
		actor, asked := evicting(t, func(string) (int, http.Header) { return 500, http.Header{"Retry-After": {"1"}} })
		var out report.Outcome
		require.NoError(t, actor.evict(t.Context(), evictionsOf(20, remove), &out))
		require.Len(t, asked(), 20)
		require.Len(t, out.Evictions, 20)
		for i, e := range out.Evictions {
			require.Equal(t, fmt.Sprintf("p%02d", i), e.Name, "in the order of the decision")
			require.Equal(t, report.EvictionError, e.Result)
		}
	}
}

// An API server that throttles is left alone: the pods that were not asked yet wait as those that were.
func TestEvictStopsWhereItIsThrottled(t *testing.T) {
	actor, asked := evicting(t, func(string) (int, http.Header) { return 429, http.Header{"Retry-After": {"3"}} })
	var out report.Outcome
	require.NoError(t, actor.evict(t.Context(), evictionsOf(100, false), &out))
	require.LessOrEqual(t, len(asked()), 2*evictAtOnce)
	require.Len(t, out.Evictions, 100)
	for _, e := range out.Evictions {
		require.Equal(t, report.EvictionThrottled, e.Result)
		require.Equal(t, 3*time.Second, e.RetryAfter)
	}
}

// A pod that hangs keeps none of the others from being asked.
func TestEvictDoesNotWaitForAPodThatHangs(t *testing.T) {
	var others sync.WaitGroup
	others.Add(19)
	actor, _ := evicting(t, func(pod string) (int, http.Header) {
		if pod == "p00" {
			others.Wait()
			return 500, nil
		}
		others.Done()
		return 201, nil
	})
	var out report.Outcome
	require.NoError(t, actor.evict(t.Context(), evictionsOf(20, false), &out))
	require.Equal(t, report.EvictionError, out.Evictions[0].Result)
	for _, e := range out.Evictions[1:] {
		require.Equal(t, report.EvictionAccepted, e.Result)
	}
}

// What was not asked when the context ended is an error; what was is told.
func TestEvictEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	actor, asked := evicting(t, func(string) (int, http.Header) { return 201, nil })
	var out report.Outcome
	require.ErrorIs(t, actor.evict(ctx, evictionsOf(2, false), &out), context.Canceled)
	require.Empty(t, asked())
	require.Empty(t, out.Evictions)
}
