package preview

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// metadata is what people say about an object beside its spec.
type metadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// compareNodeWrights says what differs between two NodeWrights of one name; either may be nil.
func (w *work) compareNodeWrights(name string) (NodeWright, bool) {
	before, after := w.base.byName[name], w.head.byName[name]
	old, now := w.base.objects[name], w.head.objects[name]
	out := NodeWright{Name: name, Change: changeOfPresence(old != nil, now != nil), Packages: []Package{}, Settings: []Setting{}, Effects: []Effect{}}
	out.Packages = append(out.Packages, w.comparePackages(before, after)...)
	if old != nil && now != nil {
		out.Settings = append(out.Settings, ownSettings(old, now)...)
	}
	out.Effective = hashOf(before) != hashOf(after)
	return out, out.Change != Changed || out.Effective || len(out.Settings) > 0 || len(out.Packages) > 0
}

func changeOfPresence(had, has bool) Change {
	switch {
	case !had:
		return Added
	case !has:
		return Removed
	}
	return Changed
}

func hashOf(nw *plan.NodeWright) string {
	if nw == nil {
		return desired.Nothing().Hash
	}
	return nw.Desired.Hash
}

// ownSettings are the fields of a NodeWright beside its packages.
func ownSettings(old, now *nwv1.NodeWright) []Setting {
	a, b := old.Spec.DeepCopy(), now.Spec.DeepCopy()
	a.Packages, b.Packages = nil, nil
	out := prefixed("spec.", settingsOf(a, b))
	return append(metadataSettings(old, now), out...)
}

func prefixed(prefix string, settings []Setting) []Setting {
	for i := range settings {
		settings[i].Field = prefix + settings[i].Field
	}
	return settings
}

// comparePackages compares resolved packages, so that a change in the catalogue shows where it takes effect.
func (w *work) comparePackages(before, after *plan.NodeWright) []Package {
	old, now := byName(before), byName(after)
	out := []Package{}
	for _, name := range union(old, now) {
		if p, differs := comparePackage(name, old[name], now[name]); differs {
			out = append(out, p)
		}
	}
	w.consequences(out, before, after)
	return out
}

func byName(nw *plan.NodeWright) map[string]*desired.Package {
	out := map[string]*desired.Package{}
	if nw != nil {
		for i := range nw.Desired.Packages {
			p := &nw.Desired.Packages[i]
			out[p.Name] = p
		}
	}
	return out
}

// comparePackage says what differs between two packages of one name, either of which may be nil; false: nothing does.
func comparePackage(name string, a, b *desired.Package) (Package, bool) {
	out := Package{Name: name, Change: Changed, Stages: []string{}}
	if a != nil {
		out.Old = &Version{a.Version, a.Image, a.Digest}
	}
	if b != nil {
		out.New = &Version{b.Version, b.Image, b.Digest}
	}
	switch {
	case a == nil:
		out.Change = Added
		return out, true
	case b == nil:
		out.Change = Removed
		return out, true
	}
	out.Env, out.EnvOrder = compareEnv(a.Env, b.Env)
	out.ConfigMap = compareKeys(a.KeyHashes, b.KeyHashes)
	out.Inert = inertFields(*a, *b)
	differs := *out.Old != *out.New || a.InstallHash != b.InstallHash || a.ConfigHash != b.ConfigHash || a.Absent != b.Absent
	return out, differs || len(out.Inert) > 0
}

// compareEnv names the variables that differ. Where none does, their order may.
func compareEnv(a, b []corev1.EnvVar) (keys Keys, order bool) {
	keys = compareKeys(envByName(a), envByName(b))
	same := func(x, y corev1.EnvVar) bool { return x.Name == y.Name }
	return keys, keys.Empty() && !slices.EqualFunc(a, b, same)
}

// envByName is the text of each variable, to compare and never to show.
func envByName(env []corev1.EnvVar) map[string]string {
	out := map[string]string{}
	for _, v := range env {
		out[v.Name] += v.String() + "\n"
	}
	return out
}

func compareKeys(a, b map[string]string) Keys {
	var out Keys
	for _, key := range union(a, b) {
		old, had := a[key]
		now, has := b[key]
		switch {
		case !had:
			out.Added = append(out.Added, key)
		case !has:
			out.Removed = append(out.Removed, key)
		case old != now:
			out.Changed = append(out.Changed, key)
		}
	}
	return out
}

// inertFields are the fields of a package that are in no hash: they hold for what comes next and start nothing.
func inertFields(a, b desired.Package) []string {
	for _, p := range []*desired.Package{&a, &b} {
		p.Version, p.Image, p.Digest, p.Env, p.ConfigMap = "", "", "", nil, nil
		p.InstallHash, p.ConfigHash = "", ""
	}
	return fields(settingsOf(a, b))
}

// compareOthers lists the policies and the catalogue's packages that differ. Values of the latter are not shown: they may be env or
// configuration.
func (w *work) compareOthers() []Object {
	policies := compareObjects(nwv1.KindDeploymentPolicy, w.in.Base.Policies, w.in.Head.Policies, func(a, b *nwv1.DeploymentPolicy) []Setting {
		return append(metadataSettings(a, b), prefixed("spec.", settingsOf(a.Spec, b.Spec))...)
	})
	packages := compareObjects(fleetv1.KindPackage, w.in.Base.Packages, w.in.Head.Packages, func(a, b *fleetv1.Package) []Setting {
		return namesOnly(append(metadataSettings(a, b), prefixed("spec.", settingsOf(a.Spec, b.Spec))...))
	})
	return append(policies, packages...)
}

// compareObjects lists the objects of a kind that differ, by name.
func compareObjects[T metav1.Object](kind string, before, after []T, settings func(a, b T) []Setting) []Object {
	out := []Object{}
	old, now := index(before), index(after)
	for _, name := range union(old, now) {
		a, had := old[name]
		b, has := now[name]
		o := Object{Kind: kind, Name: name, Change: changeOfPresence(had, has)}
		if o.Change == Changed {
			o.Settings = settings(a, b)
		}
		if o.Change != Changed || len(o.Settings) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// metadataSettings are the labels and annotations that differ, named and not quoted.
func metadataSettings(a, b metav1.Object) []Setting {
	return prefixed("metadata.", namesOnly(settingsOf(metadata{a.GetLabels(), a.GetAnnotations()}, metadata{b.GetLabels(), b.GetAnnotations()})))
}

func index[T metav1.Object](objects []T) map[string]T {
	out := map[string]T{}
	for _, o := range objects {
		out[o.GetName()] = o
	}
	return out
}
