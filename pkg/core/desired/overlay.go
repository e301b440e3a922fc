package desired

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// overlay returns the catalogue entry with the NodeWright's own fields over it: a field that is set overrides, maps
// merge by key, env merges by name.
func overlay(base fleetv1.PackageSpec, over nwv1.Package) nwv1.Package {
	out := over
	out.Image = first(over.Image, base.Image)
	out.Version = first(over.Version, base.Version)
	out.ContainerSHA = first(over.ContainerSHA, base.ContainerSHA)
	if over.ContainerSHA == "" && (over.Version != "" || over.Image != "") {
		out.ContainerSHA = "" // the catalogue's digest belongs to the catalogue's version
	}
	out.Env = mergeEnv(base.Env, over.Env)
	out.ConfigMap = mergeMaps(base.ConfigMap, over.ConfigMap)
	out.ConfigInterrupts = mergeMaps(base.ConfigInterrupts, over.ConfigInterrupts)
	out.DependsOn = mergeMaps(base.DependsOn, over.DependsOn)
	out.Interrupt = firstOf(over.Interrupt, base.Interrupt)
	out.Resources = firstOf(over.Resources, base.Resources)
	out.GracefulShutdown = firstOf(over.GracefulShutdown, base.GracefulShutdown)
	out.SkipIfSatisfied = firstOf(over.SkipIfSatisfied, base.SkipIfSatisfied)
	out.StageTimeout = firstOf(over.StageTimeout, base.StageTimeout)
	if over.Uninstall == nil && base.Uninstall != nil {
		out.Uninstall = &nwv1.Uninstall{Enabled: base.Uninstall.Enabled}
	}
	return out
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func firstOf[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func mergeMaps[V any](base, over map[string]V) map[string]V {
	if len(base) == 0 {
		return over
	}
	out := maps.Clone(base)
	maps.Copy(out, over)
	return out
}

func mergeEnv(base, over []corev1.EnvVar) []corev1.EnvVar {
	out := slices.Clone(base)
	for _, v := range over {
		i := slices.IndexFunc(out, func(have corev1.EnvVar) bool { return have.Name == v.Name })
		if i < 0 {
			out = append(out, v)
			continue
		}
		out[i] = v
	}
	return out
}
