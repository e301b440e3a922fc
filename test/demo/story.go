package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/lab"
)

// chapterTimeout bounds each chapter. It is generous: a killed reconciler's lease has to run out each time.
const chapterTimeout = 8 * time.Minute

const (
	nodewrightsFile = "bases/nodewrights/kustomization.yaml"
	sysctlFile      = "bases/packages/gpu-sysctl.yaml"
	kernelFile      = "bases/packages/kernel-args.yaml"
)

// story is the five pushes.
type story struct {
	stage  *stage
	screen *screen
	fleets int64
}

// chapter is one push and what has to come of it.
type chapter struct {
	title string
	push  func(ctx context.Context) (commit string, err error)
	// wantState of the commit, and pieces that its description has to hold.
	wantState string
	wantText  []string
	// during, if set, goes on beside the rollout and has to be done before the end.
	during func(ctx context.Context, commit string) error
	// after checks what is true at the end.
	after func(ctx context.Context) error
}

func (s *story) pushes() []chapter {
	return []chapter{
		{title: "Push 1: kernel settings, without an interrupt", push: s.pushTuning, wantState: "success",
			wantText: []string{"24/24"}, after: s.allComplete(lab.Tuning)},
		{title: "Push 2: a kernel argument, which needs a reboot", push: s.pushKernel, wantState: "success",
			wantText: []string{"all 2 NodeWrights complete"}, during: s.endTrainingWhenItIsWaitedFor, after: s.rebootedAll},
		{title: "Push 3: a typo", push: s.pushTypo, wantState: "failure",
			wantText: []string{kernelFile + ":"}, after: s.nothingChanged},
		{title: "Push 4: a version that fails on the nodes", push: s.pushBroken, wantState: "failure",
			wantText: []string{"kernel-args", "config", "exit code 3"}, after: s.halted},
		{title: "Push 5: git revert", push: s.pushRevert, wantState: "success",
			wantText: []string{"all 2 NodeWrights complete"}, after: s.allComplete(lab.Kernel)},
	}
}

func (s *story) tell(ctx context.Context) error {
	for _, c := range s.pushes() {
		s.screen.chapter(c.title)
		if err := s.play(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
	}
	s.screen.chapter("The end")
	for _, t := range tiers {
		s.screen.say("tier %-9s %2d nodes, never more than %d out of service at once (%d allowed)",
			t.Name, t.Count, s.stage.witness.mostAtOnce(t.Name), s.stage.witness.ceilings[t.Name])
	}
	asked, refused, err := s.stage.witness.evictions()
	if err != nil {
		return err
	}
	s.screen.say("the training pod was never touched; of %d evictions of other pods, a disruption budget put off %d", asked, refused)
	return nil
}

// play pushes, waits for the final status on the commit, and checks.
func (s *story) play(ctx context.Context, c chapter) error {
	ctx, cancel := context.WithTimeout(ctx, chapterTimeout)
	defer cancel()
	commit, err := c.push(ctx)
	if err != nil {
		return err
	}
	s.screen.say("git push: %s", commit[:12])
	if err := s.askForReconciliation(ctx); err != nil {
		return err
	}
	beside := make(chan error, 1)
	go func() {
		if c.during == nil {
			beside <- nil
			return
		}
		beside <- c.during(ctx, commit)
	}()
	final, err := s.waitForFinal(ctx, commit)
	if err != nil {
		return err
	}
	if final.State != c.wantState {
		return fmt.Errorf("the commit ended as %s (%s), want %s", final.State, final.Description, c.wantState)
	}
	for _, piece := range c.wantText {
		if !strings.Contains(final.Description, piece) {
			return fmt.Errorf("the commit's status does not say %q: %s", piece, final.Description)
		}
	}
	if err := <-beside; err != nil {
		return err
	}
	if err := c.after(ctx); err != nil {
		return err
	}
	return s.show(ctx, commit)
}

// show prints what a person would look at: the statuses on the commit, and kubectl get.
func (s *story) show(ctx context.Context, commit string) error {
	s.screen.say("git notes --ref=fleetwright show %s", commit[:12])
	for _, st := range s.stage.clone.Statuses(ctx, commit) {
		s.screen.block(fmt.Sprintf("%-28s %-8s %s", st.Context, st.State, st.Description))
	}
	for _, what := range []string{"fleets", "nodewrights"} {
		table, err := s.stage.table(ctx, what)
		if err != nil {
			return err
		}
		s.screen.say("kubectl get %s", what)
		s.screen.block(table)
	}
	table, err := s.stage.nodesTable(ctx)
	if err != nil {
		return err
	}
	s.screen.say("kubectl get nodes (by tier and state)")
	s.screen.block(table)
	return nil
}

// askForReconciliation does what a webhook, or `kubectl annotate fleet`, does: it shortens the wait for the next poll.
func (s *story) askForReconciliation(ctx context.Context) error {
	f := &fleetv1.Fleet{}
	key := types.NamespacedName{Namespace: lab.Namespace, Name: fleetName}
	if err := s.stage.Client.Get(ctx, key, f); client.IgnoreNotFound(err) != nil {
		return err
	} else if err != nil {
		return s.createFleet(ctx)
	}
	s.fleets++
	patch := client.MergeFrom(f.DeepCopy())
	metav1.SetMetaDataAnnotation(&f.ObjectMeta, fleetv1.RequestedAtAnnotation, fmt.Sprintf("push-%d", s.fleets))
	return s.stage.Client.Patch(ctx, f, patch)
}

func (s *story) createFleet(ctx context.Context) error {
	object, manifest, err := fleet(s.stage.git.URL(repoName))
	if err != nil {
		return err
	}
	s.screen.say("kubectl apply --filename fleet.yaml")
	s.screen.block(manifest)
	return s.stage.Client.Create(ctx, object)
}

// waitForFinal follows the rollout on the screen until the commit has a final status.
func (s *story) waitForFinal(ctx context.Context, commit string) (lab.Status, error) {
	for {
		if err := s.drawProgress(ctx); err != nil {
			return lab.Status{}, err
		}
		all := s.stage.clone.Statuses(ctx, commit)
		if len(all) > 0 && all[len(all)-1].State != "pending" {
			return all[len(all)-1], nil
		}
		if err := s.stage.process.Crashed(); err != nil {
			return lab.Status{}, err
		}
		select {
		case <-ctx.Done():
			return lab.Status{}, fmt.Errorf("the commit has no final status; the last is %v%s", all, s.stage.fleetCondition(context.WithoutCancel(ctx)))
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (s *story) drawProgress(ctx context.Context) error {
	list := &nwv1.NodeWrightList{}
	if err := s.stage.Client.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		nw := &list.Items[i]
		if nw.Status.Status == nwv1.StatusInProgress || nw.Status.Status == nwv1.StatusErroring {
			s.screen.progress(nw)
		}
	}
	return nil
}

func (s *story) pushTuning(ctx context.Context) (string, error) {
	files, err := s.stage.clone.Files()
	if err != nil {
		return "", err
	}
	only, err := lab.Edit(files, nodewrightsFile, "  - gpu-services.yaml\n  - gpu-kernel.yaml\n", "")
	if err != nil {
		return "", err
	}
	return s.stage.clone.Push(ctx, "Tune the network buffers of the GPU nodes", only)
}

func (s *story) pushKernel(ctx context.Context) (string, error) {
	policy := &nwv1.DeploymentPolicy{}
	if err := s.stage.Client.Get(ctx, types.NamespacedName{Name: "by-tier"}, policy); err != nil {
		return "", err
	}
	for _, c := range policy.Spec.Compartments {
		s.stage.witness.expect(c.Name, ceiling(c))
	}
	files, err := s.stage.clone.Files()
	if err != nil {
		return "", err
	}
	more, err := lab.Edit(files, nodewrightsFile, "  - gpu-tuning.yaml\n", "  - gpu-tuning.yaml\n  - gpu-kernel.yaml\n")
	if err != nil {
		return "", err
	}
	return s.stage.clone.Push(ctx, "Turn on the IOMMU pass-through", more)
}

// ceiling counts for itself what a compartment allows.
func ceiling(c nwv1.Compartment) int {
	if c.Budget.Count != nil {
		return int(*c.Budget.Count)
	}
	for _, t := range tiers {
		if t.Name == c.Name {
			return max(1, t.Count*int(*c.Budget.Percent)/100)
		}
	}
	return 0
}

func (s *story) pushTypo(ctx context.Context) (string, error) {
	return s.pushEdit(ctx, "Raise the kernel arguments", "  version: 1.1.6", "  verison: 1.1.6")
}

func (s *story) pushBroken(ctx context.Context) (string, error) {
	return s.pushEdit(ctx, "Raise the kernel arguments, spelled right", "  verison: 1.1.6", "  version: "+lab.BrokenVersion)
}

// pushEdit replaces one piece of the kernel arguments' package.
func (s *story) pushEdit(ctx context.Context, message, old, replacement string) (string, error) {
	files, err := s.stage.clone.Files()
	if err != nil {
		return "", err
	}
	changed, err := lab.Edit(files, kernelFile, old, replacement)
	if err != nil {
		return "", err
	}
	return s.stage.clone.Push(ctx, message, changed)
}

func (s *story) pushRevert(ctx context.Context) (string, error) {
	return s.stage.clone.Revert(ctx, 2, "Revert \"Raise the kernel arguments\"")
}

// endTrainingWhenItIsWaitedFor lets the training run finish only after every other node is done and the reconciler
// says that it waits for this pod.
func (s *story) endTrainingWhenItIsWaitedFor(ctx context.Context, commit string) error {
	for {
		nw := &nwv1.NodeWright{}
		if err := s.stage.Client.Get(ctx, types.NamespacedName{Name: lab.Kernel}, nw); client.IgnoreNotFound(err) != nil {
			return err
		}
		waits := slices.IndexFunc(nw.Status.Reasons, func(r nwv1.ReasonCount) bool { return r.Reason == "ProtectedPod" })
		if waits >= 0 && nw.Status.CompleteNodes == fmt.Sprintf("%d/%d", nodeCount-1, nodeCount) {
			s.screen.say("%s: %s", strings.Join(nw.Status.Reasons[waits].Nodes, " "), nw.Status.Reasons[waits].Message)
			return s.endTraining(ctx, commit)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the reconciler never said that it waits for the training pod")
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func (s *story) endTraining(ctx context.Context, commit string) error {
	if all := s.stage.clone.Statuses(ctx, commit); len(all) > 0 && all[len(all)-1].State == "success" {
		return fmt.Errorf("success was reported while a node waited for the training pod")
	}
	p := &corev1.Pod{}
	key := types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: lab.TrainingPod}
	if err := s.stage.Client.Get(ctx, key, p); err != nil {
		return err
	}
	s.stage.witness.end(p.UID)
	s.screen.say("the training run ends by itself; its node may be rebooted now")
	return s.stage.Client.Delete(ctx, p)
}

func (s *story) allComplete(nodeWright string) func(context.Context) error {
	return func(ctx context.Context) error {
		nw := &nwv1.NodeWright{}
		if err := s.stage.Client.Get(ctx, types.NamespacedName{Name: nodeWright}, nw); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(nw.Status.Conditions, "Ready")
		if nw.Status.Status != nwv1.StatusComplete || ready == nil || ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("NodeWright %s is %s, want complete and Ready", nodeWright, nw.Status.Status)
		}
		return s.stage.noneCordoned(ctx)
	}
}

func (s *story) rebootedAll(ctx context.Context) error {
	if err := s.allComplete(lab.Kernel)(ctx); err != nil {
		return err
	}
	for _, t := range tiers {
		if s.stage.witness.mostAtOnce(t.Name) == 0 {
			return fmt.Errorf("nobody saw a node of tier %s at work", t.Name)
		}
	}
	return nil
}

func (s *story) nothingChanged(ctx context.Context) error {
	if err := s.stage.noneCordoned(ctx); err != nil {
		return err
	}
	return s.allComplete(lab.Kernel)(ctx)
}

func (s *story) halted(ctx context.Context) error {
	nw := &nwv1.NodeWright{}
	if err := s.stage.Client.Get(ctx, types.NamespacedName{Name: lab.Kernel}, nw); err != nil {
		return err
	}
	halts := 0
	for _, c := range nw.Status.CompartmentStatuses {
		if c.BatchState != nil && c.BatchState.ShouldStop {
			halts++
		}
	}
	if halts == 0 {
		return fmt.Errorf("no compartment of %s is halted", lab.Kernel)
	}
	s.screen.say("%d compartments halted after their first batch; %d nodes failed, the others still run the old version", halts, nw.Status.NodesFailed)
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
