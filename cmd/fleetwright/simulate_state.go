package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// clusterState is what a saved list of nodes says about a cluster.
type clusterState struct {
	// known: there was a file.
	known  bool
	nodes  []plan.Node
	ledger fleetv1.LedgerSpec
	// takesPods: pods and their budgets are read too, see plan_state.go.
	takesPods bool
	pods      []*corev1.Pod
	budgets   []policyv1.PodDisruptionBudget
}

// labels are those of the nodes; nil if they are not known.
func (s clusterState) labels() []map[string]string {
	var out []map[string]string
	for _, n := range s.nodes {
		out = append(out, n.Labels)
	}
	return out
}

// readState reads --nodes-from.
func (o *simulateOptions) readState() (clusterState, error) {
	state, err := readClusterState(o.In, o.NodesFrom, clusterState{})
	if o.NodesFrom == "-" {
		o.NodesFrom = standardInput
	}
	return state, err
}

const standardInput = "standard input"

// readClusterState adds to a state what a file, or for `-` the standard input, holds. Without a name nothing is known.
func readClusterState(in io.Reader, name string, state clusterState) (clusterState, error) {
	switch name {
	case "":
		return state, nil
	case "-":
		name = standardInput
	default:
		file, err := os.Open(name)
		if err != nil {
			return clusterState{}, fmt.Errorf("--nodes-from: %s cannot be read", name)
		}
		defer func() { _ = file.Close() }() // opened for reading
		in = file
	}
	state.known = true
	decoder := yaml.NewYAMLOrJSONDecoder(in, 4096)
	for i := 1; ; i++ {
		var doc json.RawMessage
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = state.add(doc)
		}
		if err != nil {
			return clusterState{}, fmt.Errorf("--nodes-from: %s: document %d: %w", name, i, err)
		}
	}
	if len(state.nodes) == 0 {
		return clusterState{}, fmt.Errorf("--nodes-from: %s holds no Node", name)
	}
	state.placePods()
	return state, nil
}

// add takes a Node, a Ledger, or a list of these.
func (s *clusterState) add(doc json.RawMessage) error {
	if len(doc) == 0 || string(doc) == "null" {
		return nil
	}
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(doc, &head); err != nil {
		return errors.New("is neither YAML nor JSON of an object")
	}
	switch head.Kind {
	case "List", "NodeList", "LedgerList", "PodList", "PodDisruptionBudgetList":
		for _, item := range head.Items {
			if err := s.add(item); err != nil {
				return err
			}
		}
		return nil
	case "Node":
		return s.addNode(doc)
	case "Ledger":
		return s.addLedger(doc)
	}
	if s.takesPods {
		return s.addPod(head.Kind, doc)
	}
	return fmt.Errorf("kind %q is not expected (allowed: Node, Ledger, or a List of these)", head.Kind)
}

func (s *clusterState) addNode(doc json.RawMessage) error {
	node := &corev1.Node{}
	if err := json.Unmarshal(doc, node); err != nil {
		return fmt.Errorf("read Node: %w", err)
	}
	if node.Name == "" {
		return errors.New("a Node has no name")
	}
	for _, n := range s.nodes {
		if n.Name == node.Name {
			return fmt.Errorf("node %s is there twice", node.Name)
		}
	}
	if node.UID == "" { // cut out by whoever saved the list
		node.UID = types.UID("node-" + node.Name)
	}
	s.nodes = append(s.nodes, cluster.NodeView(node))
	return nil
}

func (s *clusterState) addLedger(doc json.RawMessage) error {
	ledger := &fleetv1.Ledger{}
	if err := json.Unmarshal(doc, ledger); err != nil {
		return fmt.Errorf("read Ledger: %w", err)
	}
	s.ledger = ledger.Spec
	return nil
}
