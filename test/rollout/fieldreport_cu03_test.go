package rollout

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// tuned gives the package a version, a variable X, a configuration and an uninstall.
func tuned(version, x string, config map[string]string) func(*nwv1.NodeWright) {
	return func(nw *nwv1.NodeWright) {
		nw.Spec.Packages = map[string]nwv1.Package{"tuning": {
			Version: version, Image: "example.com/tuning", Env: []corev1.EnvVar{{Name: "X", Value: x}}, ConfigMap: config,
			Uninstall: &nwv1.Uninstall{Enabled: true},
		}}
	}
}

// given is what the stages of one Job get from the cluster.
type given struct {
	Stages []string
	X      string
	Config map[string]string // by key, as mounted: the content of the immutable ConfigMap
}

// givenTo is what the Jobs of a phase get, by their creation.
func (w *world) givenTo(nodeWright string, phase plan.Phase) []given {
	w.t.Helper()
	list, err := w.kube.BatchV1().Jobs(namespace).List(w.ctx(), metav1.ListOptions{
		LabelSelector: nwv1.NameLabel + "=" + nodeWright + "," + fleetv1.PhaseLabel + "=" + string(phase),
	})
	require.NoError(w.t, err)
	slices.SortFunc(list.Items, func(a, b batchv1.Job) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	var out []given
	for i := range list.Items {
		out = append(out, w.givenBy(&list.Items[i]))
	}
	return out
}

func (w *world) givenBy(job *batchv1.Job) given {
	w.t.Helper()
	spec := job.Spec.Template.Spec
	got := given{Config: map[string]string{}}
	data := map[string]string{}
	for _, v := range spec.Volumes {
		if v.ConfigMap != nil {
			cm, err := w.kube.CoreV1().ConfigMaps(namespace).Get(w.ctx(), v.ConfigMap.Name, metav1.GetOptions{})
			require.NoError(w.t, err)
			require.True(w.t, *cm.Immutable)
			data = cm.Data
		}
	}
	for _, m := range spec.InitContainers[0].VolumeMounts {
		if strings.Contains(m.MountPath, "/configmaps/") {
			require.Contains(w.t, data, m.SubPath)
			got.Config[m.SubPath] = data[m.SubPath]
		}
	}
	for _, c := range spec.InitContainers[1:] {
		if !strings.HasSuffix(c.Name, "check") && c.Name != "done" {
			got.Stages = append(got.Stages, c.Name)
			i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "X" })
			require.GreaterOrEqual(w.t, i, 0, "container %s has X", c.Name)
			got.X = c.Env[i].Value
		}
	}
	return got
}

// TestFieldReport_CU03_UninstallGetsWhatWasInstalled: by the time of the uninstall another version with another environment and
// other files is in the spec, and the process that installed is gone. The uninstall has the environment and the files that were
// there when the package was installed, the installation after it the new ones; so has the uninstall when the entry goes.
func TestFieldReport_CU03_UninstallGetsWhatWasInstalled(t *testing.T) {
	w := newWorld(t)
	w.addNodes(1, nil)
	older, newer := map[string]string{"f": "old", "only-old": "1"}, map[string]string{"f": "new", "only-new": "1"}
	w.start()
	w.create(w.nodeWright("cu03", tuned("1.1.0", "1", older)))
	w.awaitComplete("cu03")
	w.stop()
	w.edit("cu03", tuned("1.0.0", "2", newer))
	w.start()
	w.awaitComplete("cu03")
	require.Equal(t, []given{{[]string{"tuning-uninstall"}, "1", older}}, w.givenTo("cu03", plan.PhaseUninstall))
	installs := w.givenTo("cu03", plan.PhaseInstall)
	require.Equal(t, given{[]string{"tuning-apply", "tuning-config"}, "2", newer}, installs[len(installs)-1])

	w.edit("cu03", func(nw *nwv1.NodeWright) {
		nw.Spec.Packages = map[string]nwv1.Package{"other": {Version: "1.0.0", Image: "example.com/other"}}
	})
	w.awaitComplete("cu03")
	uninstalls := w.givenTo("cu03", plan.PhaseUninstall)
	require.Len(t, uninstalls, 2)
	require.Equal(t, "2", uninstalls[1].X)
	require.Equal(t, slices.Sorted(maps.Keys(newer)), slices.Sorted(maps.Keys(uninstalls[1].Config)))
}

// A deletion in the foreground, as some tools of GitOps ask for it, has the garbage collector delete what the object owns before
// the object: the uninstall runs all the same, once, and the object goes.
func TestDeletionInTheForegroundUninstallsAndGoes(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	held := w.gate(func(_ *corev1.Pod, container string) bool { return container == "tuning-uninstall" })
	w.start()
	w.create(w.nodeWright("front", tuned("1.0.0", "1", map[string]string{"f": "old"})))
	w.awaitComplete("front")
	require.NoError(t, w.admin.Delete(w.ctx(), w.get("front"), client.PropagationPolicy(metav1.DeletePropagationForeground)))
	require.Eventually(t, func() bool { return !strings.Contains(strings.Join(w.jobs("front"), " "), "tuning-install-") }, patience, pause, "the garbage collector is at it")
	held.open()
	require.Eventually(t, func() bool { return w.gone("front") }, patience, pause, "the object goes")
	uninstalls := 0
	for _, name := range w.created() {
		if strings.HasPrefix(name, "tuning-uninstall-") {
			uninstalls++
		}
	}
	require.Equal(t, 1, uninstalls)
	require.Eventually(t, func() bool { return w.node(node).Annotations[fleetv1.RecordKey("front")] == "" }, patience, pause, "nothing is left")
}
