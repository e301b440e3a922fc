package desired_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
)

func object(packages map[string]nwv1.Package) *nwv1.NodeWright {
	return &nwv1.NodeWright{Spec: nwv1.NodeWrightSpec{Packages: packages}}
}

func resolve(t *testing.T, p nwv1.Package) (desired.Package, string) {
	t.Helper()
	set, problems := desired.Resolve(object(map[string]nwv1.Package{"tuning": p}), nil)
	require.Empty(t, problems)
	got, ok := set.ByName("tuning")
	require.True(t, ok)
	return got, set.Hash
}

var base = nwv1.Package{
	Version: "1.0.0", Image: "example.com/tuning", ConfigMap: map[string]string{"a": "1", "b": "2"},
	Env: []corev1.EnvVar{{Name: "X", Value: "1"}},
}

// These hashes are on nodes and in names of stored definitions: they must not change from one release to the next.
func TestHashesAreStable(t *testing.T) {
	p, set := resolve(t, base)
	require.Equal(t, "f144b5b15765312a", p.InstallHash)
	require.Equal(t, "21f76dfbfe6dfe21", p.ConfigHash)
	require.Equal(t, "11b36b24a32ef5ce", p.SnapshotHash)
	require.Equal(t, "296d6a502e5cf59f", set)
	require.Equal(t, map[string]string{"a": "391552c0", "b": "cc11310c"}, p.KeyHashes)
}

// TestWhatChangesAHash: what is put on a host does, everything else does not.
func TestWhatChangesAHash(t *testing.T) {
	for _, c := range []struct {
		name            string
		change          func(*nwv1.Package)
		install, config bool
		set             bool
	}{
		{name: "version", change: func(p *nwv1.Package) { p.Version = "1.0.1" }, install: true, set: true},
		{name: "image", change: func(p *nwv1.Package) { p.Image = "example.com/other" }, install: true, set: true},
		{name: "digest", change: func(p *nwv1.Package) { p.ContainerSHA = "sha256:00" }, install: true, set: true},
		{name: "env value", change: func(p *nwv1.Package) { p.Env = []corev1.EnvVar{{Name: "X", Value: "2"}} }, install: true, set: true},
		{name: "env gone", change: func(p *nwv1.Package) { p.Env = nil }, install: true, set: true},
		{name: "config value", change: func(p *nwv1.Package) { p.ConfigMap = map[string]string{"a": "1", "b": "3"} }, config: true, set: true},
		{name: "config key gone", change: func(p *nwv1.Package) { p.ConfigMap = map[string]string{"a": "1"} }, config: true, set: true},
		{name: "kept away", change: func(p *nwv1.Package) { p.Uninstall = &nwv1.Uninstall{Enabled: true, Apply: true} }, set: true},
		{name: "key order", change: func(p *nwv1.Package) { p.ConfigMap = map[string]string{"b": "2", "a": "1"} }},
		{name: "interrupt", change: func(p *nwv1.Package) { p.Interrupt = &nwv1.Interrupt{Type: nwv1.InterruptReboot} }},
		{name: "configInterrupts", change: func(p *nwv1.Package) { p.ConfigInterrupts = map[string]nwv1.Interrupt{"a": {Type: "noop"}} }},
		{name: "stageTimeout", change: func(p *nwv1.Package) { p.StageTimeout = &metav1.Duration{Duration: time.Minute} }},
		{name: "gracefulShutdown", change: func(p *nwv1.Package) { p.GracefulShutdown = &metav1.Duration{Duration: time.Minute} }},
		{name: "uninstall.enabled", change: func(p *nwv1.Package) { p.Uninstall = &nwv1.Uninstall{Enabled: true} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, setBefore := resolve(t, base)
			changed := *base.DeepCopy()
			c.change(&changed)
			after, setAfter := resolve(t, changed)
			require.Equal(t, c.install, before.InstallHash != after.InstallHash, "install hash")
			require.Equal(t, c.config, before.ConfigHash != after.ConfigHash, "config hash")
			require.Equal(t, c.set, setBefore != setAfter, "hash of the set")
		})
	}
}

func TestAbsentAndEmptyAreTheSame(t *testing.T) {
	none, empty := nwv1.Package{Version: "1.0.0", Image: "i"}, nwv1.Package{Version: "1.0.0", Image: "i"}
	empty.ConfigMap, empty.Env = map[string]string{}, []corev1.EnvVar{}
	a, setA := resolve(t, none)
	b, setB := resolve(t, empty)
	require.Equal(t, a.InstallHash, b.InstallHash)
	require.Equal(t, a.ConfigHash, b.ConfigHash)
	require.Equal(t, setA, setB)
}

func TestReference(t *testing.T) {
	require.Equal(t, "i:1.0.0", desired.Package{Image: "i", Version: "1.0.0"}.Reference())
	require.Equal(t, "i@sha256:00", desired.Package{Image: "i", Version: "1.0.0", Digest: "sha256:00"}.Reference())
}

// TestSnapshotKeepsTheWholeDefinition: an uninstall reads it back years later.
func TestSnapshotKeepsTheWholeDefinition(t *testing.T) {
	p, _ := resolve(t, base)
	data, err := json.Marshal(p)
	require.NoError(t, err)
	var back desired.Package
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, p.Env, back.Env)
	require.Equal(t, p.ConfigMap, back.ConfigMap)
	require.Equal(t, p.InstallHash, back.InstallHash)
}

// TestOverlay: entry fields override, maps merge by key, env by name.
func TestOverlay(t *testing.T) {
	catalogue := map[string]*fleetv1.Package{"tuned": {Spec: fleetv1.PackageSpec{
		Image: "example.com/tuned", Version: "1.0.0", ContainerSHA: "sha256:aa",
		Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "1"}}, ConfigMap: map[string]string{"x": "1", "y": "1"},
		Interrupt: &nwv1.Interrupt{Type: nwv1.InterruptReboot}, StageTimeout: &metav1.Duration{Duration: time.Hour},
		Uninstall: &fleetv1.PackageUninstall{Enabled: true},
	}}}
	ref := nwv1.Package{PackageRef: &nwv1.PackageReference{Name: "tuned"}}
	over := ref
	over.Version, over.ConfigMap = "1.1.0", map[string]string{"y": "2", "z": "2"}
	over.Env = []corev1.EnvVar{{Name: "B", Value: "2"}, {Name: "C", Value: "2"}}
	over.Interrupt, over.Uninstall = &nwv1.Interrupt{Type: nwv1.InterruptNoop}, &nwv1.Uninstall{}
	over.GracefulShutdown = &metav1.Duration{Duration: time.Second}
	set, problems := desired.Resolve(object(map[string]nwv1.Package{"plain": ref, "over": over}), catalogue)
	require.Empty(t, problems)

	plain, _ := set.ByName("plain")
	require.Equal(t, "example.com/tuned@sha256:aa", plain.Reference())
	require.Equal(t, time.Hour, *plain.StageTimeout)
	require.True(t, plain.UninstallOnRemoval)

	got, _ := set.ByName("over")
	require.Equal(t, "example.com/tuned:1.1.0", got.Reference(), "the catalogue's digest belongs to the catalogue's version")
	require.Equal(t, map[string]string{"x": "1", "y": "2", "z": "2"}, got.ConfigMap)
	require.Equal(t, []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}, {Name: "C", Value: "2"}}, got.Env)
	require.Equal(t, nwv1.InterruptNoop, got.Interrupt.Type)
	require.False(t, got.UninstallOnRemoval)
	require.Equal(t, map[string]string{"x": "1", "y": "1"}, catalogue["tuned"].Spec.ConfigMap, "the catalogue is not changed")
}

func entry(version string, dependsOn map[string]string) nwv1.Package {
	return nwv1.Package{Version: version, Image: "i", DependsOn: dependsOn}
}

// TestProblems: what could never work is said, in one sentence each.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name     string
		packages map[string]nwv1.Package
		want     []desired.Problem
	}{
		{"none", map[string]nwv1.Package{"a": entry("1", nil), "b": entry("1", map[string]string{"a": "1"})}, nil},
		{"unknown Package", map[string]nwv1.Package{
			"a": {PackageRef: &nwv1.PackageReference{Name: "x"}}, "b": entry("1", map[string]string{"a": "1"}),
		}, []desired.Problem{{"spec.packages.a.packageRef.name", `Package "x" does not exist`}}},
		{"missing dependency", map[string]nwv1.Package{"a": entry("1", map[string]string{"b": "1"})},
			[]desired.Problem{{"spec.packages.a.dependsOn.b", `package "b" does not exist`}}},
		{"another version", map[string]nwv1.Package{"a": entry("1", map[string]string{"b": "1"}), "b": entry("2", nil)},
			[]desired.Problem{{"spec.packages.a.dependsOn.b", `package "b" has version 2, not 1`}}},
		{"kept away", map[string]nwv1.Package{
			"a": entry("1", map[string]string{"b": "1"}),
			"b": {Version: "1", Image: "i", Uninstall: &nwv1.Uninstall{Enabled: true, Apply: true}},
		}, []desired.Problem{{"spec.packages.a.dependsOn.b", `package "b" is to be uninstalled (uninstall.apply)`}}},
		{"itself", map[string]nwv1.Package{"a": entry("1", map[string]string{"a": "1"})},
			[]desired.Problem{{"spec.packages.a.dependsOn.a", "dependency cycle: a -> a"}}},
		{"a circle, said once", map[string]nwv1.Package{
			"a": entry("1", map[string]string{"b": "1"}), "b": entry("1", map[string]string{"c": "1"}),
			"c": entry("1", map[string]string{"a": "1"}), "d": entry("1", map[string]string{"a": "1"}),
		}, []desired.Problem{{"spec.packages.a.dependsOn.b", "dependency cycle: a -> b -> c -> a"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := desired.Resolve(object(c.packages), nil)
			require.Equal(t, c.want, problems)
		})
	}
}

func TestByNameOfWhatIsNotThere(t *testing.T) {
	_, ok := desired.Set{}.ByName("x")
	require.False(t, ok)
}
