package simnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/util/retry"
)

// node is what the Fleet knows of one machine.
type node struct {
	name    string
	labels  map[string]string
	options NodeOptions
	ip      string
	bootID  string
	silent  bool   // its kubelet does nothing, and nobody notices
	down    bool   // the machine is off: its kubelet does nothing
	booting string // boot ID of a start that is not reported yet: the machine starts once, however often it has to say so
}

func (f *Fleet) node(name string) *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[name]
}

func (f *Fleet) known(name string) (node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[name]
	if n == nil {
		return node{}, fmt.Errorf("node %s is not one of this fleet", name)
	}
	return *n, nil
}

// AddNode registers a node as its kubelet would: the object, then its status, and, unless NodeOptions.NotReady, Ready
// and without the taint that new nodes get. The answer is the node as the API server has it.
func (f *Fleet) AddNode(ctx context.Context, name string, labels map[string]string, o NodeOptions) (*corev1.Node, error) {
	f.mu.Lock()
	f.nextIP++
	n := &node{name: name, labels: labels, options: o, bootID: string(uuid.NewUUID()),
		ip: fmt.Sprintf("10.0.%d.%d", f.nextIP/250, 1+f.nextIP%250)}
	f.mu.Unlock()
	if err := f.register(ctx, n); err != nil {
		return nil, err
	}
	got, err := f.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	return got, nil
}

func (f *Fleet) register(ctx context.Context, n *node) error {
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: defaultLabels(n), Annotations: n.options.Annotations},
		Spec:       corev1.NodeSpec{Taints: n.options.Taints},
	}
	if _, err := f.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create node %s: %w", n.name, err)
	}
	f.mu.Lock()
	f.nodes[n.name] = n
	f.mu.Unlock()
	if err := f.patchStatus(ctx, n.name, f.fullStatus(n)); err != nil {
		return err
	}
	f.enqueueNode(n.name) // pods may have been bound to the name before
	if n.options.NotReady {
		return nil
	}
	return f.SetReady(ctx, n.name, true)
}

func defaultLabels(n *node) map[string]string {
	labels := map[string]string{
		corev1.LabelHostname: n.name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}
	maps.Copy(labels, n.labels)
	return labels
}

func (f *Fleet) fullStatus(n *node) corev1.NodeStatus {
	capacity := n.options.Capacity
	if capacity == nil {
		capacity = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"),
			corev1.ResourcePods: resource.MustParse("110"),
		}
	}
	machine := string(uuid.NewUUID())
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: n.ip}, {Type: corev1.NodeHostName, Address: n.name}},
		Conditions: append(f.pressures(), f.readyCondition(corev1.ConditionFalse)),
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: machine, SystemUUID: machine, BootID: n.bootID,
			OSImage: orDefault(n.options.OSImage, "Simulated Linux 1"), OperatingSystem: "linux", Architecture: "amd64",
			KernelVersion:           orDefault(n.options.KernelVersion, "6.1.0-sim"),
			ContainerRuntimeVersion: "simnode://1", KubeletVersion: "v1.36.3",
		},
	}
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func (f *Fleet) pressures() []corev1.NodeCondition {
	var all []corev1.NodeCondition
	for _, t := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		all = append(all, corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, Reason: "KubeletHasNoPressure",
			LastHeartbeatTime: f.now(), LastTransitionTime: f.now()})
	}
	return all
}

// readyCondition uses the reasons and messages that a kubelet (True, False) and the node-lifecycle controller
// (Unknown) write.
func (f *Fleet) readyCondition(s corev1.ConditionStatus) corev1.NodeCondition {
	c := corev1.NodeCondition{Type: corev1.NodeReady, Status: s, LastHeartbeatTime: f.now(), LastTransitionTime: f.now()}
	switch s {
	case corev1.ConditionTrue:
		c.Reason, c.Message = "KubeletReady", "kubelet is posting ready status"
	case corev1.ConditionFalse:
		c.Reason, c.Message = "KubeletNotReady", "container runtime is down"
	case corev1.ConditionUnknown:
		c.Reason, c.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	return c
}

// patchStatus writes only the fields that are set, conditions by type: what others wrote into the status stays.
func (f *Fleet) patchStatus(ctx context.Context, name string, s corev1.NodeStatus) error {
	status, err := prune(s)
	if err != nil {
		return fmt.Errorf("encode status of node %s: %w", name, err)
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("encode status of node %s: %w", name, err)
	}
	_, err = f.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patch status of node %s: %w", name, err)
	}
	return nil
}

// prune drops what Go's JSON writes for unset fields: a strategic merge patch would take "" for "make it empty".
func prune(s corev1.NodeStatus) (map[string]any, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	dropEmpty(m)
	return m, nil
}

func dropEmpty(m map[string]any) {
	for k, v := range m {
		if inner, ok := v.(map[string]any); ok {
			dropEmpty(inner)
			if len(inner) == 0 {
				delete(m, k)
			}
		} else if v == "" || v == nil || v == float64(0) {
			delete(m, k)
		}
	}
}

// SetReady turns the Ready condition and the taint that goes with it. The kubelet keeps working on its pods: this is a
// node that reports trouble, not one that is gone (see PowerOff).
func (f *Fleet) SetReady(ctx context.Context, name string, ready bool) error {
	if _, err := f.known(name); err != nil {
		return fmt.Errorf("set readiness: %w", err)
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return f.writeReady(ctx, name, corev1.NodeStatus{Conditions: []corev1.NodeCondition{f.readyCondition(status)}})
}

func (f *Fleet) writeReady(ctx context.Context, name string, s corev1.NodeStatus) error {
	if err := f.patchStatus(ctx, name, s); err != nil {
		return err
	}
	return f.setTaint(ctx, name, s.Conditions[0].Status != corev1.ConditionTrue)
}

// setTaint does what the node-lifecycle controller would do with the not-ready taint, since that one may not run. A new
// Node gets the taint from the API server's admission.
func (f *Fleet) setTaint(ctx context.Context, name string, want bool) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n, err := f.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), isNotReadyTaint)
		if want {
			taints = append(taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
		}
		if len(taints) == len(n.Spec.Taints) {
			return nil
		}
		n.Spec.Taints = taints
		_, err = f.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("set taint of node %s: %w", name, err)
	}
	return nil
}

func isNotReadyTaint(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeNotReady && t.Effect == corev1.TaintEffectNoSchedule
}

// Reboot powers the node off and, after Options.RebootDuration, on again, if Run runs. It returns when the node is off.
func (f *Fleet) Reboot(ctx context.Context, name string) error {
	if err := f.PowerOff(ctx, name); err != nil {
		return err
	}
	f.queue.AddAfter(key{node: name, power: powerOn}, f.options.RebootDuration)
	return nil
}

// PowerOff stops the machine: its kubelet does nothing any more, its Ready condition becomes Unknown at once (a real
// cluster needs 40 s to notice), and its containers are dead, which nobody reports before PowerOn.
func (f *Fleet) PowerOff(ctx context.Context, name string) error {
	if !f.halt(name) {
		return fmt.Errorf("power off: node %s is not one of this fleet", name)
	}
	return f.writeReady(ctx, name, corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{f.readyCondition(corev1.ConditionUnknown)}})
}

// halt stops the machine itself; what the cluster says about it is another matter.
func (f *Fleet) halt(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[name]
	if n != nil {
		n.down = true
	}
	return n != nil
}

// PowerOn starts a machine that is off, with a new boot ID. Containers that ran before end with exit code 255, reason
// Unknown, as after a real reboot. A machine that is on stays as it is.
func (f *Fleet) PowerOn(ctx context.Context, name string) error {
	boot, err := f.boot(name)
	if err != nil || boot == "" {
		return err
	}
	err = f.writeReady(ctx, name, corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{BootID: boot},
		Conditions: []corev1.NodeCondition{f.readyCondition(corev1.ConditionTrue)},
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	if p := f.nodes[name]; p != nil {
		p.down, p.bootID, p.booting = false, boot, ""
	}
	f.mu.Unlock()
	f.enqueueNode(name)
	return nil
}

// boot is the boot ID with which a machine that is off starts; empty for one that is on.
func (f *Fleet) boot(name string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[name]
	switch {
	case n == nil:
		return "", fmt.Errorf("power on: node %s is not one of this fleet", name)
	case n.down && n.booting == "":
		n.booting = string(uuid.NewUUID())
	}
	return n.booting, nil
}

// SetSilent has the node's kubelet do nothing with its pods, or go on, while the node stays as Ready as it is: bound pods are
// not acknowledged, containers do not end, deleted pods do not go.
func (f *Fleet) SetSilent(name string, silent bool) error {
	f.mu.Lock()
	n := f.nodes[name]
	if n != nil {
		n.silent = silent
	}
	f.mu.Unlock()
	if n == nil {
		return fmt.Errorf("set silence: node %s is not one of this fleet", name)
	}
	f.enqueueNode(name)
	return nil
}

// DeleteNode removes the Node object and the machine. Its pods stay, as in a real cluster, until somebody collects them.
func (f *Fleet) DeleteNode(ctx context.Context, name string) error {
	if _, err := f.known(name); err != nil {
		return fmt.Errorf("delete node: %w", err)
	}
	f.mu.Lock()
	delete(f.nodes, name)
	f.mu.Unlock()
	err := f.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	return nil
}

// RecreateNode replaces the machine by a new one of the same name, labels and options: new UID, machine ID and boot ID,
// and none of the annotations, taints and cordons that were added since.
func (f *Fleet) RecreateNode(ctx context.Context, name string) (*corev1.Node, error) {
	n, err := f.known(name)
	if err != nil {
		return nil, fmt.Errorf("recreate node: %w", err)
	}
	if err := f.DeleteNode(ctx, name); err != nil {
		return nil, err
	}
	return f.AddNode(ctx, name, n.labels, n.options)
}

// Cleanup deletes every node of the fleet and says what went wrong, once for each node.
func (f *Fleet) Cleanup(ctx context.Context) error {
	f.mu.Lock()
	names := slices.Sorted(maps.Keys(f.nodes))
	f.mu.Unlock()
	var all []error
	for _, name := range names {
		all = append(all, f.DeleteNode(ctx, name))
	}
	return errors.Join(all...)
}
