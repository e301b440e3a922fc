package soak

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
)

const (
	reconcilerUser = "system:serviceaccount:" + namespace + ":" + chart.ReconcilerAccount
	// unseen is how long others may have changed something that the reconciler did not see yet when it acted; requests are
	// held back by up to 1.5 s on their way.
	unseen = 6 * time.Second
)

// cordonState is what the request log says about one node.
type cordonState struct {
	cordoned  time.Time // the last accepted write that set it; zero: none since it was taken off
	lifted    time.Time // when it was taken off
	byOthers  bool      // the last lifting was not ours
	foreign   bool      // it is the cordon of others
	foreignAt time.Time
}

// String says it for people.
func (c *cordonState) String() string {
	switch {
	case !c.cordoned.IsZero():
		return "cordoned at " + c.cordoned.Format(time.StampMicro)
	case c.lifted.IsZero():
		return "never cordoned"
	}
	return fmt.Sprintf("taken off at %s, by others: %t", c.lifted.Format(time.StampMicro), c.byOthers)
}

// lifeOfPod is when a pod of the noise was there.
type lifeOfPod struct {
	node         string
	training     bool
	begin, ended time.Time
}

// requestWitness judges the API server's request log.
type requestWitness struct {
	now                                   time.Time
	nodes                                 map[string]*cordonState
	pods                                  map[string]*lifeOfPod
	requests, writes, refused, interrupts int
	evictions, conflicts, failed          int
}

func newRequestWitness() requestWitness {
	return requestWitness{nodes: map[string]*cordonState{}, pods: map[string]*lifeOfPod{}}
}

func (w *witness) checkRequests() {
	ctx, cancel := w.s.ctx()
	defer cancel()
	audit := w.s.c.Audit()
	require.NoError(w.s.t, audit.Sync(ctx))
	events, err := audit.Events(cluster.Match{})
	require.NoError(w.s.t, err)
	audit.Forget()
	for _, e := range events {
		w.judgeRequest(e)
	}
}

func (w *witness) judgeRequest(e cluster.AuditEvent) {
	ours := e.User == reconcilerUser
	switch {
	case e.Resource == "nodes" && e.Subresource == "" && e.Code < 300:
		w.judgeNodeWrite(e, ours)
	case e.Resource == "pods" && e.Verb == "delete" && e.Code < 300:
		w.podEnded(e)
	}
	if !ours {
		return
	}
	w.count(e)
	switch {
	case e.Code == http.StatusForbidden:
		w.breach("refused by the chart's roles or policies: %s %s", e.Verb, e.URI)
	case e.Resource == "pods" && e.Subresource == "eviction":
		w.judgeEviction(e)
	case e.Resource == "pods" && e.Verb == "delete" && e.Namespace != namespace:
		w.breach("pod %s/%s is deleted, although only evictions are asked for", e.Namespace, e.Name)
	case e.Resource == "jobs" && e.Verb == "create" && e.Code < 300:
		w.judgeJob(e)
	}
}

func (w *witness) count(e cluster.AuditEvent) {
	w.log.requests++
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		w.log.writes++
	}
	switch {
	case e.Code == http.StatusConflict || e.Code == http.StatusUnprocessableEntity:
		w.log.conflicts++
	case e.Code >= 500:
		w.log.failed++
	}
}

func (w *witness) cordons(node string) *cordonState {
	c := w.log.nodes[node]
	if c == nil {
		c = &cordonState{}
		w.log.nodes[node] = c
	}
	return c
}

// judgeNodeWrite follows who cordons and who takes a cordon off.
func (w *witness) judgeNodeWrite(e cluster.AuditEvent, ours bool) {
	if e.Verb == "delete" {
		delete(w.log.nodes, e.Name)
		return
	}
	set, found := unschedulable(e.Request)
	if e.Verb != "patch" || !found {
		return
	}
	c := w.cordons(e.Name)
	if set {
		c.cordoned = e.Completed
		c.foreign, c.foreignAt = c.foreign || !ours, e.Completed
		return
	}
	if ours && c.foreign && e.Received.After(c.foreignAt) {
		w.breach("the cordon of others on node %s was taken off", e.Name)
	}
	*c = cordonState{lifted: e.Received, byOthers: !ours}
}

// unschedulable reads a JSON patch or a merge patch of a node: whether it sets or removes the field.
func unschedulable(body json.RawMessage) (set, found bool) {
	var ops []struct {
		Op, Path string
		Value    any
	}
	if json.Unmarshal(body, &ops) == nil {
		for _, op := range ops {
			if op.Path == "/spec/unschedulable" && op.Op != "test" {
				return op.Op != "remove" && op.Value == true, true
			}
		}
		return false, false
	}
	var merge struct {
		Spec map[string]any `json:"spec"`
	}
	if json.Unmarshal(body, &merge) != nil {
		return false, false
	}
	value, found := merge.Spec["unschedulable"]
	return value == true, found
}

func (w *witness) judgeEviction(e cluster.AuditEvent) {
	w.log.evictions++
	if e.Code == http.StatusTooManyRequests {
		w.log.refused++
	}
	if strings.HasPrefix(e.Name, trainingPrefix) {
		w.breach("the protected pod %s is evicted", e.Name)
	}
	pod := w.log.pods[e.Name]
	if pod == nil {
		w.breach("pod %s/%s, which the noise did not make, is evicted", e.Namespace, e.Name)
		return
	}
	c := w.cordons(pod.node)
	cordoned := !c.cordoned.IsZero() && !c.cordoned.After(e.Received)
	if !cordoned && !(c.byOthers && e.Received.Sub(c.lifted) < unseen) {
		w.breach("pod %s is evicted from node %s at %s, which is not cordoned: %s", e.Name, pod.node, e.Received.Format(time.StampMicro), c)
	}
}

func (w *witness) podEnded(e cluster.AuditEvent) {
	if pod := w.log.pods[e.Name]; pod != nil && pod.ended.IsZero() {
		pod.ended = e.Completed
	}
}

// judgeJob wants no pod of others on a node whose interrupt begins: the protected ones have ended, the rest was evicted.
func (w *witness) judgeJob(e cluster.AuditEvent) {
	var job batchv1.Job
	if err := json.Unmarshal(e.Request, &job); err != nil {
		w.breach("the log holds a Job that cannot be read: %v", err)
		return
	}
	if job.Labels[nwv1.InterruptLabel] != nwv1.InterruptLabelValue {
		return
	}
	w.log.interrupts++
	node := job.Annotations[fleetv1.NodeAnnotation]
	for name, pod := range w.log.pods {
		if pod.node == node && e.Received.Sub(pod.begin) > unseen && (pod.ended.IsZero() || pod.ended.After(e.Completed)) {
			w.breach("an interrupt begins on node %s, where pod %s still is", node, name)
		}
	}
}

// born tells the witness of a pod of the noise.
func (w *witness) born(p appPod, created metav1.Time) {
	w.log.pods[p.name] = &lifeOfPod{node: p.node, training: p.training, begin: created.Time}
}
