package soak

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// foreign is the prefix of the keys that others write.
const foreign = "soak.example.com"

// noiseAgent marks the requests of people and other machines in the log.
const noiseAgent = "soak-noise"

func (s *stage) join() {
	s.t.Helper()
	ctx, cancel := s.ctx()
	defer cancel()
	name := fmt.Sprintf("soak-%03d", s.model.born)
	s.model.born++
	labels := map[string]string{poolLabel: []string{"a", "a", "b", "c"}[s.random.IntN(4)]}
	_, err := s.kubelet.AddNode(ctx, name, labels, simnode.NodeOptions{})
	require.NoError(s.t, err)
	s.model.nodes = append(s.model.nodes, name)
}

func (s *stage) stepJoin() {
	if len(s.model.nodes) < s.most {
		s.join()
	}
}

func (s *stage) stepDelete() {
	if len(s.model.nodes) <= s.o.nodes*7/10 {
		return
	}
	name := s.pick(s.model.nodes)
	s.forget(name)
	s.model.nodes = slices.DeleteFunc(s.model.nodes, func(n string) bool { return n == name })
	s.model.pods = slices.DeleteFunc(s.model.pods, func(p appPod) bool { return p.node == name })
	ctx, cancel := s.ctx()
	defer cancel()
	require.NoError(s.t, s.kubelet.DeleteNode(ctx, name))
}

// forget drops what the noise did to a node: another machine begins without it.
func (s *stage) forget(name string) {
	delete(s.model.off, name)
	delete(s.model.asked, name)
	delete(s.model.cordon, name)
	delete(s.model.taints, name)
	delete(s.model.marks, name)
	s.faults.set(name, "")
}

func (s *stage) stepRecreate() {
	name := s.pick(s.model.nodes)
	s.forget(name)
	ctx, cancel := s.ctx()
	defer cancel()
	_, err := s.kubelet.RecreateNode(ctx, name)
	require.NoError(s.t, err)
}

func (s *stage) stepReboot() {
	ctx, cancel := s.ctx()
	defer cancel()
	require.NoError(s.t, s.kubelet.Reboot(ctx, s.pick(s.running())))
}

func (s *stage) stepPowerOff() {
	if len(s.model.off) > s.o.nodes/10 {
		return
	}
	name := s.pick(s.running())
	s.model.off[name] = true
	ctx, cancel := s.ctx()
	defer cancel()
	require.NoError(s.t, s.kubelet.PowerOff(ctx, name))
}

// stepPowerOn also finds the machines that did not come back from a reboot of ours: PowerOn does nothing where power is.
func (s *stage) stepPowerOn() { s.powerOn(s.pick(s.model.nodes)) }

func (s *stage) powerOn(name string) {
	delete(s.model.off, name)
	ctx, cancel := s.ctx()
	defer cancel()
	require.NoError(s.t, s.kubelet.PowerOn(ctx, name))
}

func (s *stage) stepNotReady() {
	ctx, cancel := s.ctx()
	defer cancel()
	require.NoError(s.t, s.kubelet.SetReady(ctx, s.pick(s.running()), s.random.IntN(3) > 0))
}

// patchNode is a merge patch by others; false if the node was changed or is gone.
func (s *stage) patchNode(name, format string, args ...any) bool {
	ctx, cancel := s.ctx()
	defer cancel()
	_, err := s.noise.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, format, args...), metav1.PatchOptions{})
	if apierrors.IsConflict(err) {
		return false
	}
	require.NoError(s.t, err)
	return true
}

// stepCordon is `kubectl cordon`, which does nothing where somebody else has cordoned.
func (s *stage) stepCordon() {
	name := s.pick(s.model.nodes)
	s.model.asked[name] = true
	for range 10 {
		ctx, cancel := s.ctx()
		node, err := s.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		cancel()
		require.NoError(s.t, err)
		if node.Spec.Unschedulable || ownedCordons(node.Annotations) > 0 {
			return
		}
		if s.patchNode(name, `{"metadata":{"resourceVersion":%q},"spec":{"unschedulable":true}}`, node.ResourceVersion) {
			s.model.cordon[name] = true
			return
		}
	}
}

func ownedCordons(annotations map[string]string) int {
	n := 0
	for key := range annotations {
		if strings.HasPrefix(key, nwv1.CordonPrefix) {
			n++
		}
	}
	return n
}

func (s *stage) stepUncordon() {
	var cordoned []string
	for _, n := range s.model.nodes {
		if s.model.asked[n] {
			cordoned = append(cordoned, n)
		}
	}
	if name := s.pick(cordoned); name != "" {
		s.uncordon(name)
	}
}

func (s *stage) uncordon(name string) {
	delete(s.model.asked, name)
	delete(s.model.cordon, name)
	s.patchNode(name, `{"spec":{"unschedulable":null}}`)
}

// stepCarelessUncordon takes a cordon off whoever it belongs to.
func (s *stage) stepCarelessUncordon() { s.uncordon(s.pick(s.model.nodes)) }

func (s *stage) stepMove() {
	pool := []string{`"a"`, `"b"`, `"c"`, "null"}[s.random.IntN(4)]
	s.patchNode(s.pick(s.model.nodes), `{"metadata":{"labels":{%q:%s}}}`, poolLabel, pool)
}

func (s *stage) stepIgnore() {
	value := []string{`"true"`, "null", "null", "null"}[s.random.IntN(4)]
	s.patchNode(s.pick(s.model.nodes), `{"metadata":{"labels":{%q:%s}}}`, nwv1.IgnoreLabel, value)
}

func (s *stage) stepMark() {
	name, value := s.pick(s.model.nodes), fmt.Sprint(s.random.IntN(1000))
	s.model.marks[name] = value
	s.patchNode(name, `{"metadata":{"labels":{"%s/mark":%q},"annotations":{"%s/mark":%q}}}`, foreign, value, foreign, value)
}

// stepTaint puts a taint beside those that are there, or takes it off, as a controller does.
func (s *stage) stepTaint() {
	name := s.pick(s.model.nodes)
	want := !s.model.taints[name]
	for range 20 {
		ctx, cancel := s.ctx()
		node, err := s.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			node.Spec.Taints = withTaint(node.Spec.Taints, want)
			_, err = s.noise.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		}
		cancel()
		if !apierrors.IsConflict(err) {
			require.NoError(s.t, err)
			break
		}
	}
	s.model.taints[name] = want
}
