package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/history"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// The story, on six nodes, of which c0 to c3 are `alpha`'s and c2 to c5 `beta`'s:
//
//  1. `alpha` installs a package and reboots, `beta` installs two and restarts a service. Node c0 has a pod that a
//     PodDisruptionBudget keeps, until somebody deletes the budget; c1 has a protected pod, until it ends by itself; c2 has
//     one that takes its time; c5 was cordoned by somebody else.
//  2. The configuration of a package of `beta` changes, which restarts the service again.
//  3. An upgrade of it fails on c2 for good and on c3 once: `beta` is halted after the first batch.
//  4. The next version mends it, and the other package is removed with an uninstall.
const (
	alpha, beta = "alpha", "beta"
	// secretValue is what a failing package prints, which reads Secrets.
	secretValue = "correct-horse-battery-staple"
	foreign     = "example.com/"
)

// nodeNames are the nodes of the story.
var nodeNames = []string{"c0", "c1", "c2", "c3", "c4", "c5"}

// story plays people, workloads and nodes in one run.
type story struct {
	lane   *lane
	fleet  *simnode.Fleet
	writes *writes
	// at is the chapter that is being played, for disturbances that come at a certain time.
	at   atomic.Value
	took []string // by each chapter
}

// rules are what the story promises.
func rules() history.Rules {
	return history.Rules{
		Ceilings: map[string]int{alpha: 2, beta: 2}, Budget: 3, Namespace: namespace, ForeignPrefix: foreign,
		Protected:      map[string]labels.Selector{alpha: labels.SelectorFromSet(labels.Set{"job": "training"})},
		ForeignCordons: map[string]bool{"c5": true}, Secret: secretValue,
	}
}

// fate is what becomes of a container: version 2.0.0 does not work on c2, and on c3 at the second attempt only.
func fate(pod *corev1.Pod, container string) simnode.Result {
	switch {
	case container == "interrupt" && strings.Contains(argumentOf(pod), "bm9kZV9yZXN0YXJ0"): // base64 of node_restart
		return simnode.Result{Reboot: simnode.RebootKills}
	case container != "tools-upgrade" || pod.Labels[nwv1.PackageLabel] != "tools-2.0.0":
		return simnode.Result{}
	case pod.Spec.NodeName == "c2", pod.Spec.NodeName == "c3" && pod.Labels[fleetv1.AttemptLabel] == "1":
		return simnode.Result{Exit: 3, Log: "cannot log in with " + secretValue}
	}
	return simnode.Result{}
}

// argumentOf an interrupt is base64 of {"type":...}, which begins with `{"type":"`, so that the type stands at a whole group.
func argumentOf(pod *corev1.Pod) string {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == "interrupt" && len(c.Args) > 0 {
			return c.Args[len(c.Args)-1]
		}
	}
	return ""
}

// setUp makes the nodes and what runs on them.
func (s *story) setUp(ctx context.Context) error {
	for _, name := range nodeNames {
		options := simnode.NodeOptions{
			Annotations: map[string]string{foreign + "owner": "team-" + name},
			Taints:      []corev1.Taint{{Key: foreign + "reserved", Value: "x", Effect: corev1.TaintEffectPreferNoSchedule}},
		}
		if _, err := s.fleet.AddNode(ctx, name, labelsOf(name), options); err != nil {
			return err
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c5"}}
	if err := s.lane.admin.Patch(ctx, node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
		return fmt.Errorf("cordon c5: %w", err)
	}
	objects := []client.Object{
		workload("web", "c0", map[string]string{"app": "web"}), workload("train", "c1", map[string]string{"job": "training"}),
		workload("slow", "c2", nil), workload("plain", "c4", nil),
		&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: metav1.NamespaceDefault},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			},
		},
		&fleetv1.Fleet{
			ObjectMeta: metav1.ObjectMeta{Name: "site", Namespace: namespace},
			Spec: fleetv1.FleetSpec{
				Source:     fleetv1.Source{URL: "https://git.example.com/fleet.git"},
				Interval:   metav1.Duration{Duration: time.Minute},
				Timeout:    metav1.Duration{Duration: time.Minute},
				Disruption: &fleetv1.Disruption{MaxNodes: new(intstr.FromInt32(3))},
			},
		},
		policy("alpha", nwv1.FixedStrategy{BatchRules: nwv1.BatchRules{InitialBatch: 2}, Advance: nwv1.AdvanceRolling}),
		policy("beta", nwv1.FixedStrategy{BatchRules: nwv1.BatchRules{InitialBatch: 2, SafetyLimit: 100, FailureThreshold: new(int32(1))}}),
	}
	for _, o := range objects {
		if err := s.lane.admin.Create(ctx, o); err != nil {
			return fmt.Errorf("create %s: %w", o.GetName(), err)
		}
	}
	return s.settled(ctx)
}

// labelsOf a node say which NodeWrights are for it.
func labelsOf(node string) map[string]string {
	out := map[string]string{foreign + "rack": "r" + node}
	if node < "c4" {
		out[alpha] = "yes"
	}
	if node > "c1" {
		out[beta] = "yes"
	}
	return out
}

// settled waits until the workloads run and the budget is counted.
func (s *story) settled(ctx context.Context) error {
	return eventually(ctx, "the workloads run", func() (bool, error) {
		pods, budget := &corev1.PodList{}, &policyv1.PodDisruptionBudget{}
		if err := s.lane.admin.List(ctx, pods, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return false, err
		}
		for _, p := range pods.Items {
			if p.Status.Phase != corev1.PodRunning {
				return false, nil
			}
		}
		err := s.lane.admin.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "web"}, budget)
		return err == nil && budget.Status.CurrentHealthy == 1, err
	})
}

func workload(name, node string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "example.com/app"}}},
	}
}

func policy(name string, strategy nwv1.FixedStrategy) *nwv1.DeploymentPolicy {
	return &nwv1.DeploymentPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: nwv1.DeploymentPolicySpec{
			Order: nwv1.OrderName,
			Default: nwv1.PolicyDefault{
				Budget: nwv1.DeploymentBudget{Count: new(int32(2))}, Strategy: &nwv1.DeploymentStrategy{Fixed: &strategy},
			},
		},
	}
}

func nodeWright(name string, priority int32, packages map[string]nwv1.Package) *nwv1.NodeWright {
	return &nwv1.NodeWright{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: nwv1.NodeWrightSpec{
			NodeSelectors: metav1.LabelSelector{MatchLabels: map[string]string{name: "yes"}}, Priority: priority,
			DeploymentPolicy: name, Packages: packages,
		},
	}
}

// tools is the package that is configured, upgraded and mended.
func tools(version, config string) nwv1.Package {
	restart := nwv1.Interrupt{Type: nwv1.InterruptService, Services: []string{"containerd"}}
	return nwv1.Package{
		Version: version, Image: "example.com/tools", Interrupt: &restart,
		ConfigMap: map[string]string{"tools.conf": config}, ConfigInterrupts: map[string]nwv1.Interrupt{"tools.conf": restart},
		Env: []corev1.EnvVar{{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "token"}, Key: "token",
		}}}},
	}
}

// chapters of the story, in order.
func (s *story) chapters() []chapter {
	return []chapter{
		{"install", s.install}, {"configure", s.configure}, {"fail", s.failUpgrade}, {"mend", s.mend},
	}
}

type chapter struct {
	name string
	play func(context.Context) error
}

func (s *story) play(ctx context.Context) error {
	for _, c := range s.chapters() {
		s.at.Store(c.name)
		begin := time.Now()
		if err := c.play(ctx); err != nil {
			return fmt.Errorf("chapter %s: %w", c.name, err)
		}
		s.took = append(s.took, c.name+" "+time.Since(begin).Round(time.Millisecond).String())
	}
	s.at.Store("end")
	return nil
}

func (s *story) install(ctx context.Context) error {
	first := nodeWright(alpha, 100, map[string]nwv1.Package{
		"kernel": {Version: "1.0.0", Image: "example.com/kernel", Interrupt: &nwv1.Interrupt{Type: nwv1.InterruptReboot}},
	})
	first.Spec.PodNonInterruptLabels = metav1.LabelSelector{MatchLabels: map[string]string{"job": "training"}}
	second := nodeWright(beta, 200, map[string]nwv1.Package{
		"tools": tools("1.0.0", "a"),
		"extra": {
			Version: "1.0.0", Image: "example.com/extra", DependsOn: map[string]string{"tools": "1.0.0"},
			Uninstall: &nwv1.Uninstall{Enabled: true},
		},
	})
	for _, nw := range []*nwv1.NodeWright{second, first} {
		err := s.insist(ctx, "create "+nw.Name, func() error {
			return client.IgnoreAlreadyExists(s.lane.admin.Create(ctx, nw.DeepCopy()))
		})
		if err != nil {
			return err
		}
	}
	if err := s.letGo(ctx); err != nil {
		return err
	}
	return s.complete(ctx, alpha, beta)
}

// letGo deletes the budget once it has refused an eviction, and ends the protected pod once it is waited for.
func (s *story) letGo(ctx context.Context) error {
	err := eventually(ctx, "the budget refuses an eviction", func() (bool, error) { return s.writes.refusals() > 0, nil })
	if err != nil {
		return err
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: metav1.NamespaceDefault}}
	err = s.insist(ctx, "delete the budget", func() error { return client.IgnoreNotFound(s.lane.admin.Delete(ctx, budget)) })
	if err != nil {
		return err
	}
	err = eventually(ctx, "node c1 waits for its protected pod", func() (bool, error) {
		nw := &nwv1.NodeWright{}
		err := s.lane.admin.Get(ctx, client.ObjectKey{Name: alpha}, nw)
		waits := slices.ContainsFunc(nw.Status.Reasons, func(r nwv1.ReasonCount) bool {
			return r.Reason == string(plan.ProtectedPod) && slices.Contains(r.Nodes, "c1")
		})
		return waits, err
	})
	if err != nil {
		return err
	}
	train := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: metav1.NamespaceDefault}}
	ended := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Succeeded"}}`))
	return s.insist(ctx, "end the training", func() error { return s.lane.admin.Status().Patch(ctx, train, ended) })
}

// insist tries until it works: the API server may be away.
func (s *story) insist(ctx context.Context, what string, try func() error) error {
	return eventually(ctx, what, func() (bool, error) { err := try(); return err == nil, err })
}

func (s *story) configure(ctx context.Context) error {
	err := s.edit(ctx, beta, func(nw *nwv1.NodeWright) { nw.Spec.Packages["tools"] = tools("1.0.0", "b") })
	if err != nil {
		return err
	}
	return s.complete(ctx, beta)
}

func (s *story) failUpgrade(ctx context.Context) error {
	err := s.edit(ctx, beta, func(nw *nwv1.NodeWright) {
		nw.Spec.Packages["tools"] = tools("2.0.0", "b")
		extra := nw.Spec.Packages["extra"]
		extra.DependsOn["tools"] = "2.0.0"
		nw.Spec.Packages["extra"] = extra
	})
	if err != nil {
		return err
	}
	return eventually(ctx, "beta is halted", func() (bool, error) {
		ledger := &fleetv1.Ledger{}
		err := s.lane.admin.Get(ctx, client.ObjectKey{Name: fleetv1.LedgerName}, ledger)
		return ledger.Spec.Rollouts[beta].Compartments[nwv1.DefaultCompartment].Halt != nil, client.IgnoreNotFound(err)
	})
}

func (s *story) mend(ctx context.Context) error {
	err := s.edit(ctx, beta, func(nw *nwv1.NodeWright) {
		nw.Spec.Packages["tools"] = tools("2.0.1", "b")
		delete(nw.Spec.Packages, "extra")
	})
	if err != nil {
		return err
	}
	return s.complete(ctx, alpha, beta)
}

func (s *story) edit(ctx context.Context, name string, change func(*nwv1.NodeWright)) error {
	return eventually(ctx, "nodewright "+name+" is edited", func() (bool, error) {
		nw := &nwv1.NodeWright{}
		if err := s.lane.admin.Get(ctx, client.ObjectKey{Name: name}, nw); err != nil {
			return false, err
		}
		change(nw)
		err := s.lane.admin.Update(ctx, nw)
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// complete waits until the NodeWrights are complete at what they say now.
func (s *story) complete(ctx context.Context, names ...string) error {
	return eventually(ctx, strings.Join(names, ", ")+" complete", func() (bool, error) {
		for _, name := range names {
			nw := &nwv1.NodeWright{}
			if err := s.lane.admin.Get(ctx, client.ObjectKey{Name: name}, nw); err != nil {
				return false, err
			}
			if nw.Status.Status != nwv1.StatusComplete || nw.Status.ObservedGeneration != nw.Generation {
				return false, fmt.Errorf("%s: %s, %v", name, nw.Status.Status, nw.Status.Reasons)
			}
		}
		return true, nil
	})
}
