package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// NodeCheckVariable is the environment variable with which an interrupt is told what its node must look like.
const NodeCheckVariable = "FLEETWRIGHT_NODE_CHECK"

// NodeCheck is what a node must look like directly before an interrupt: the contract with the reconciler, as JSON. Every pod
// that may stay is named, or of a kind that may: the rules of a drain are the reconciler's alone.
type NodeCheck struct {
	// Node and UID of the node. Required.
	Node string `json:"node"`
	UID  string `json:"uid"`
	// Protect selects the pods that must not be disturbed, in any namespace; empty: none is protected.
	Protect string `json:"protect,omitempty"`
	// DaemonSets says that pods of DaemonSets may stay.
	DaemonSets bool `json:"daemonSets,omitempty"`
	// Namespace and Label tell the pods of executions apart, which may stay.
	Namespace string `json:"namespace"`
	Label     string `json:"label"`
	// Stay are the UIDs of further pods that may stay.
	Stay []string `json:"stay,omitempty"`
}

// NodeReader reads a node and its pods, live.
type NodeReader interface {
	Node(ctx context.Context, name string) (Node, error)
	// Pods are those bound to the node that the label selector selects; an empty one selects all.
	Pods(ctx context.Context, node, selector string) ([]Pod, error)
}

// Node is what a check needs of a node.
type Node struct {
	Metadata Metadata `json:"metadata"`
	Spec     struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
}

// Pod is what a check needs of a pod.
type Pod struct {
	Metadata Metadata `json:"metadata"`
	Status   struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// Metadata are the fields of an object's metadata that a check needs.
type Metadata struct {
	Namespace       string            `json:"namespace"`
	Name            string            `json:"name"`
	UID             string            `json:"uid"`
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
	OwnerReferences []struct {
		Kind       string `json:"kind"`
		Controller bool   `json:"controller"`
	} `json:"ownerReferences"`
}

// ParseNodeCheck reads the variable's value.
func ParseNodeCheck(value string) (NodeCheck, error) {
	var c NodeCheck
	if err := json.Unmarshal([]byte(value), &c); err != nil {
		return c, usage("%s is not JSON: %v", NodeCheckVariable, err)
	}
	if c.Node == "" || c.UID == "" || c.Namespace == "" || c.Label == "" {
		return c, usage("%s must name node, uid, namespace and label", NodeCheckVariable)
	}
	return c, nil
}

// Look says why the node may not be interrupted now; nil: it may. What cannot be read may not be interrupted. The cordon is
// looked at first: pods that are listed after it was seen are all that can be there.
func (c NodeCheck) Look(ctx context.Context, r NodeReader) error {
	node, err := r.Node(ctx, c.Node)
	if err != nil {
		return fmt.Errorf("read node %s: %w", c.Node, err)
	}
	switch {
	case node.Metadata.UID != c.UID:
		return fmt.Errorf("node %s is another one: its UID is %s and not %s", c.Node, node.Metadata.UID, c.UID)
	case !node.Spec.Unschedulable:
		return fmt.Errorf("node %s is not cordoned", c.Node)
	}
	if err := c.lookForProtected(ctx, r); err != nil {
		return err
	}
	pods, err := r.Pods(ctx, c.Node, "")
	if err != nil {
		return fmt.Errorf("list pods of node %s: %w", c.Node, err)
	}
	for _, p := range pods {
		if c.counts(p) && !c.stays(p) {
			return fmt.Errorf("pod %s/%s is on node %s", p.Metadata.Namespace, p.Metadata.Name, c.Node)
		}
	}
	return nil
}

// lookForProtected has the API server evaluate the selector: its language is not the agent's business.
func (c NodeCheck) lookForProtected(ctx context.Context, r NodeReader) error {
	if c.Protect == "" {
		return nil
	}
	pods, err := r.Pods(ctx, c.Node, c.Protect)
	if err != nil {
		return fmt.Errorf("list protected pods of node %s: %w", c.Node, err)
	}
	for _, p := range pods {
		if c.counts(p) {
			return fmt.Errorf("the protected pod %s/%s is on node %s", p.Metadata.Namespace, p.Metadata.Name, c.Node)
		}
	}
	return nil
}

// counts: the pod has not finished and is no execution.
func (c NodeCheck) counts(p Pod) bool {
	ours := p.Metadata.Namespace == c.Namespace && p.Metadata.Labels[c.Label] != ""
	return p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed" && !ours
}

func (c NodeCheck) stays(p Pod) bool {
	const mirror = "kubernetes.io/config.mirror"
	_, static := p.Metadata.Annotations[mirror]
	return static || c.DaemonSets && p.ofDaemonSet() || slices.Contains(c.Stay, p.Metadata.UID)
}

func (p Pod) ofDaemonSet() bool {
	for _, o := range p.Metadata.OwnerReferences {
		if o.Controller {
			return o.Kind == "DaemonSet"
		}
	}
	return false
}
