package desired

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Set is what a node has to run for one NodeWright.
type Set struct {
	// Packages sorted by name.
	Packages []Package
	// Hash covers what is put on a host.
	Hash string
}

// Package is one package with every reference resolved. Its JSON form is the immutable snapshot that an uninstall or a
// downgrade reads later, so fields are added, never renamed.
type Package struct {
	Name               string                     `json:"name"`
	Version            string                     `json:"version"`
	Image              string                     `json:"image"`
	Digest             string                     `json:"digest,omitempty"`
	AgentImage         string                     `json:"agentImage,omitempty"`
	Env                []corev1.EnvVar            `json:"env,omitempty"`
	ConfigMap          map[string]string          `json:"configMap,omitempty"`
	Interrupt          *nwv1.Interrupt            `json:"interrupt,omitempty"`
	ConfigInterrupts   map[string]nwv1.Interrupt  `json:"configInterrupts,omitempty"`
	DependsOn          map[string]string          `json:"dependsOn,omitempty"`
	Resources          *nwv1.ResourceRequirements `json:"resources,omitempty"`
	GracefulShutdown   *time.Duration             `json:"gracefulShutdown,omitempty"`
	StageTimeout       *time.Duration             `json:"stageTimeout,omitempty"`
	UninstallOnRemoval bool                       `json:"uninstallOnRemoval,omitempty"`
	// SkipIfSatisfied runs the checks first.
	SkipIfSatisfied bool `json:"skipIfSatisfied,omitempty"`
	// Absent: `uninstall.apply` asks for the package to be uninstalled and kept away.
	Absent bool `json:"-"`

	// InstallHash covers version, image or digest, and env; ConfigHash the configMap; KeyHashes each of its keys.
	InstallHash string            `json:"installHash"`
	ConfigHash  string            `json:"configHash"`
	KeyHashes   map[string]string `json:"-"`
	// SnapshotHash covers the whole definition.
	SnapshotHash string `json:"-"`
}

// Nothing is the set of a NodeWright that wants no package.
func Nothing() Set { return Set{Hash: setHash(nil)} }

// ByName returns the package of that name.
func (s Set) ByName(name string) (Package, bool) {
	i, ok := slices.BinarySearchFunc(s.Packages, name, func(p Package, n string) int {
		return compare(p.Name, n)
	})
	if !ok {
		return Package{}, false
	}
	return s.Packages[i], true
}

// Problem is a reference that cannot be resolved, or a dependency that can never be met.
type Problem struct {
	// Field is the path in the NodeWright, like `spec.packages.tuning.packageRef.name`.
	Field string
	// Message is one sentence.
	Message string
}

// Resolve returns the package set of a NodeWright. A problem concerns one package; the others are resolved all the same.
// With a problem the set is not what anybody wants: it is there to be looked at, not to be put on a node.
func Resolve(nw *nwv1.NodeWright, catalogue map[string]*fleetv1.Package) (Set, []Problem) {
	var set Set
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(nw.Spec.Packages)) {
		entry := nw.Spec.Packages[name]
		merged, problem := merge(name, entry, catalogue)
		if problem != nil {
			problems = append(problems, *problem)
			continue
		}
		set.Packages = append(set.Packages, build(name, merged))
	}
	set.Hash = setHash(set.Packages)
	return set, append(problems, dependencyProblems(set, nw.Spec.Packages)...)
}

// merge applies an entry over the Package that it refers to: entry fields override, maps merge by key.
func merge(name string, entry nwv1.Package, catalogue map[string]*fleetv1.Package) (nwv1.Package, *Problem) {
	if entry.PackageRef == nil {
		return entry, nil
	}
	ref, ok := catalogue[entry.PackageRef.Name]
	if !ok {
		return entry, &Problem{
			Field:   "spec.packages." + name + ".packageRef.name",
			Message: fmt.Sprintf("Package %q does not exist", entry.PackageRef.Name),
		}
	}
	return overlay(ref.Spec, entry), nil
}

// build fills the resolved package and its hashes.
func build(name string, p nwv1.Package) Package {
	out := Package{
		Name: name, Version: p.Version, Image: p.Image, Digest: p.ContainerSHA, AgentImage: p.AgentImageOverride,
		Env: p.Env, ConfigMap: p.ConfigMap, Interrupt: p.Interrupt, ConfigInterrupts: p.ConfigInterrupts,
		DependsOn: p.DependsOn, Resources: p.Resources, SkipIfSatisfied: p.SkipIfSatisfied != nil && *p.SkipIfSatisfied,
	}
	if p.GracefulShutdown != nil {
		out.GracefulShutdown = &p.GracefulShutdown.Duration
	}
	if p.StageTimeout != nil {
		out.StageTimeout = &p.StageTimeout.Duration
	}
	if p.Uninstall != nil {
		out.UninstallOnRemoval = p.Uninstall.Enabled
		out.Absent = p.Uninstall.Enabled && p.Uninstall.Apply
	}
	return out.hashed()
}
