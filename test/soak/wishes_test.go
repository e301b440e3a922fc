package soak

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// The NodeWrights of the soak. Each has a budget of another kind.
const (
	wrightBase   = "soak-base"   // all nodes, an interruption budget, a service restart, goes first
	wrightKernel = "soak-kernel" // all nodes, a policy with compartments, reboots
	wrightExtra  = "soak-extra"  // pool b, no interrupt, packages that depend on one another, can be uninstalled
	wrightYield  = "soak-yield"  // pool a, gives way to protected pods
	policyKernel = "soak-kernel"
	policyYield  = "soak-yield"
	poolLabel    = "soak-pool"
	training     = "training" // value of the label workload of protected pods
)

var wrights = []string{wrightBase, wrightKernel, wrightExtra, wrightYield}

// wish is what people want of one NodeWright now. Noise changes it; the object is made from it.
type wish struct {
	name     string
	version  int // of every package
	config   int // of the configuration
	reboot   bool
	budget   int32 // of base and extra
	second   bool  // whether there is a second package
	paused   bool
	disabled bool
	dying    bool // deleted, and to be created again
	patient  bool // after the noise: a stage may take as long as a busy machine needs
}

func newWishes() map[string]*wish {
	return map[string]*wish{
		wrightBase:   {name: wrightBase, version: 1, budget: 6, second: true},
		wrightKernel: {name: wrightKernel, version: 1, reboot: true},
		wrightExtra:  {name: wrightExtra, version: 1, budget: 20, second: true},
		wrightYield:  {name: wrightYield, version: 1},
	}
}

func (w *wish) annotations() map[string]string {
	out := map[string]string{}
	if w.paused {
		out[nwv1.PauseAnnotation] = nwv1.TrueValue
	}
	if w.disabled {
		out[nwv1.DisableAnnotation] = nwv1.TrueValue
	}
	return out
}

// semver grows with n, and a smaller n is a downgrade.
func semver(n int) string { return fmt.Sprintf("1.%d.0", n) }

func (w *wish) spec() nwv1.NodeWrightSpec {
	spec := nwv1.NodeWrightSpec{
		PodNonInterruptLabels: metav1.LabelSelector{MatchLabels: map[string]string{"workload": training}},
		Packages:              w.packages(),
	}
	switch w.name {
	case wrightBase:
		spec.Priority = 100
		spec.InterruptionBudget = &nwv1.InterruptionBudget{Count: &w.budget}
		spec.NodeSelectors.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: poolLabel, Operator: metav1.LabelSelectorOpExists}}
	case wrightKernel:
		spec.DeploymentPolicy = policyKernel
		spec.NodeSelectors.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: poolLabel, Operator: metav1.LabelSelectorOpExists}}
	case wrightExtra:
		spec.Priority = 300
		spec.InterruptionBudget = &nwv1.InterruptionBudget{Percent: &w.budget}
		spec.NodeSelectors.MatchLabels = map[string]string{poolLabel: "b"}
	case wrightYield:
		spec.Priority = 400
		spec.DeploymentPolicy = policyYield
		spec.ProtectedPods = nwv1.ProtectedPodsYield
		spec.NodeSelectors.MatchLabels = map[string]string{poolLabel: "a"}
	}
	return spec
}

func (w *wish) packages() map[string]nwv1.Package {
	stageTimeout := &metav1.Duration{Duration: stageTimeout}
	if w.patient {
		stageTimeout.Duration = patience
	}
	one := nwv1.Package{
		Version: semver(w.version), Image: "example.com/" + w.name, StageTimeout: stageTimeout,
		ConfigMap: map[string]string{"settings": fmt.Sprint(w.config)},
	}
	switch {
	case w.reboot:
		one.Interrupt = &nwv1.Interrupt{Type: nwv1.InterruptReboot}
	case w.name == wrightBase || w.name == wrightYield:
		one.Interrupt = &nwv1.Interrupt{Type: nwv1.InterruptService, Services: []string{"containerd"}}
		one.ConfigInterrupts = map[string]nwv1.Interrupt{"settings": *one.Interrupt}
	}
	out := map[string]nwv1.Package{"first": one}
	if w.second {
		out["second"] = nwv1.Package{
			Version: semver(1), Image: "example.com/second", StageTimeout: stageTimeout,
			DependsOn: map[string]string{"first": semver(w.version)}, Uninstall: &nwv1.Uninstall{Enabled: true},
		}
	}
	return out
}

// policyWish is what people want of the policies: how many nodes of each compartment.
type policyWish struct{ a, b, rest, yield int32 }

func (p policyWish) kernel() nwv1.DeploymentPolicySpec {
	fixed := nwv1.FixedStrategy{BatchRules: nwv1.BatchRules{InitialBatch: 2, FailureThreshold: pointer(3)}}
	linear := nwv1.LinearStrategy{BatchRules: nwv1.BatchRules{InitialBatch: 1, FailureThreshold: pointer(3)}, Delta: 1}
	return nwv1.DeploymentPolicySpec{
		Default: nwv1.PolicyDefault{Budget: nwv1.DeploymentBudget{Count: &p.rest}},
		Compartments: []nwv1.Compartment{
			{Name: "a", Selector: pool("a"), Budget: nwv1.DeploymentBudget{Count: &p.a}, Strategy: &nwv1.DeploymentStrategy{Fixed: &fixed}},
			{Name: "b", Selector: pool("b"), Budget: nwv1.DeploymentBudget{Count: &p.b}, Strategy: &nwv1.DeploymentStrategy{Linear: &linear}},
		},
	}
}

func (p policyWish) yielding() nwv1.DeploymentPolicySpec {
	rolling := nwv1.FixedStrategy{BatchRules: nwv1.BatchRules{InitialBatch: 4}, Advance: nwv1.AdvanceRolling}
	return nwv1.DeploymentPolicySpec{Default: nwv1.PolicyDefault{
		Budget: nwv1.DeploymentBudget{Count: &p.yield}, Strategy: &nwv1.DeploymentStrategy{Fixed: &rolling},
	}}
}

func pool(name string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{poolLabel: name}}
}

func pointer(n int32) *int32 { return &n }

// capFleet holds the cluster-wide budget; it never delivers anything.
func capFleet(most int) *fleetv1.Fleet {
	limit := intstr.FromInt32(int32(most))
	return &fleetv1.Fleet{
		ObjectMeta: metav1.ObjectMeta{Name: "soak", Namespace: namespace},
		Spec: fleetv1.FleetSpec{
			Source: fleetv1.Source{URL: "https://git.example.com/soak.git"}, Suspend: true,
			Interval: metav1.Duration{Duration: time.Minute}, Timeout: metav1.Duration{Duration: time.Minute},
			Disruption: &fleetv1.Disruption{MaxNodes: &limit},
		},
	}
}

// ceilings are the budgets of one NodeWright by compartment; a compartment that is not named has none.
func (s *stage) ceilings(name string) map[string]int {
	w, p := s.wishes[name], s.policy
	switch name {
	case wrightBase:
		return map[string]int{nwv1.DefaultCompartment: int(w.budget)}
	case wrightExtra: // per cent; see witness.allowed
		return map[string]int{nwv1.DefaultCompartment: int(w.budget)}
	case wrightKernel:
		return map[string]int{"a": int(p.a), "b": int(p.b), nwv1.DefaultCompartment: int(p.rest)}
	}
	return map[string]int{nwv1.DefaultCompartment: int(p.yield)}
}
