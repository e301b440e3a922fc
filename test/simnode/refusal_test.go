package simnode_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/test/simnode"
)

func TestKubeletRefusesPods(t *testing.T) {
	var asked atomic.Int32
	w := newWorld(t, simnode.Options{Admit: func(p *corev1.Pod) simnode.Refusal {
		asked.Add(1)
		if p.Name == "big" {
			return simnode.Refusal{Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu"}
		}
		return simnode.Refusal{}
	}})
	w.pod("big", nil)
	w.pod("small", nil)
	p := w.await("big", phase(corev1.PodFailed))
	require.Equal(t, "OutOfcpu", p.Status.Reason)
	require.Equal(t, "Pod was rejected: Node didn't have enough resource: cpu", p.Status.Message)
	require.Empty(t, p.Status.ContainerStatuses, "no container was made")
	w.await("small", phase(corev1.PodSucceeded))
	require.EqualValues(t, 2, asked.Load(), "each is asked for once")
}

func TestKubeletEvictsPods(t *testing.T) {
	w := newWorld(t, simnode.Options{Outcome: func(*corev1.Pod, string) simnode.Result {
		return simnode.Result{Evicted: "The node was low on resource: memory."}
	}})
	w.pod("a", nil)
	p := w.await("a", phase(corev1.PodFailed))
	require.Equal(t, "Evicted", p.Status.Reason)
	require.EqualValues(t, 137, p.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	var target corev1.PodCondition
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			target = c
		}
	}
	require.Equal(t, corev1.PodReasonTerminationByKubelet, target.Reason)
	require.Equal(t, p.Status.Message, target.Message)
}

func TestSilentKubelet(t *testing.T) {
	w := newWorld(t, simnode.Options{Duration: time.Millisecond})
	require.NoError(t, w.fleet.SetSilent(w.ns, true))
	w.pod("a", nil)
	require.NoError(t, w.fleet.SetReady(t.Context(), w.ns, true), "the node is Ready all the time")
	p := w.get("a")
	require.Nil(t, p.Status.StartTime, "not acknowledged")
	require.Equal(t, corev1.PodPending, p.Status.Phase)
	require.NoError(t, w.fleet.SetSilent(w.ns, false))
	w.await("a", phase(corev1.PodSucceeded))
	require.EqualError(t, w.fleet.SetSilent("unknown", true), "set silence: node unknown is not one of this fleet")
}
