package manifest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

func packagesNamed(names ...string) []*fleetv1.Package {
	var out []*fleetv1.Package
	for _, name := range names {
		out = append(out, &fleetv1.Package{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       fleetv1.PackageSpec{Image: "ghcr.io/x/" + name, Version: "1.0.0"},
		})
	}
	return out
}

func policiesNamed(names ...string) []*nwv1.DeploymentPolicy {
	var out []*nwv1.DeploymentPolicy
	for _, name := range names {
		out = append(out, &nwv1.DeploymentPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return out
}

// wright is the YAML of a NodeWright with the given fields of spec, indented by two.
func wright(name, spec string) string {
	return "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata: {name: " + name + "}\nspec:\n" + spec
}

const policyP = "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: DeploymentPolicy\nmetadata: {name: p}\nspec:\n  default: {budget: {count: 1}}\n"

func catalogue(name, spec string) string {
	return "apiVersion: fleetwright.dev/v1alpha1\nkind: Package\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

func TestRulesBetweenObjects(t *testing.T) {
	scope := &fleetv1.Scope{
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}},
		Images:       []string{"ghcr.io/x/*"}, Interrupts: []nwv1.InterruptType{nwv1.InterruptService, nwv1.InterruptNoop},
	}
	cases := map[string]struct {
		docs []string
		opts manifest.Options
		want []string
	}{
		"references that are there": {
			docs: []string{policyP, catalogue("tuning", `{image: a, version: 1.0.0}`),
				wright("x", "  deploymentPolicy: p\n  packages:\n    tuning: {packageRef: {name: tuning}}\n")},
		},
		"references that are elsewhere in the cluster": {
			docs: []string{wright("x", "  deploymentPolicy: p\n  packages:\n    tuning: {packageRef: {name: tuning}}\n")},
			opts: manifest.Options{Elsewhere: manifest.Set{Packages: packagesNamed("tuning"), DeploymentPolicies: policiesNamed("p")}},
		},
		"unknown policy and package": {
			docs: []string{policyP, catalogue("tuning", `{image: a, version: 1.0.0}`),
				wright("x", "  deploymentPolicy: q\n  packages:\n    tuning: {packageRef: {name: tunning}}\n")},
			want: []string{
				`NodeWright/x: spec.deploymentPolicy: there is no DeploymentPolicy "q" (allowed: p)`,
				`NodeWright/x: spec.packages.tuning.packageRef.name: there is no Package "tunning" (allowed: tuning)`,
			},
		},
		"a Package in error is not reported as missing": {
			docs: []string{catalogue("tuning", `{image: "a:1", version: 1.0.0}`),
				wright("x", "  packages:\n    tuning: {packageRef: {name: tuning}}\n    other: {image: a, version: 1.0.0, dependsOn: {tuning: 1.0.0}}\n")},
			want: []string{`Package/tuning: spec.image: must be an image name without tag and digest; the tag is the field version, a digest goes into containerSHA`},
		},
		"dependency missing, of another version, and a cycle": {
			docs: []string{wright("x", `  packages:
    aa: {image: i, version: 1.0.0, dependsOn: {bb: 1.0.0}}
    bb: {image: i, version: 1.0.0, dependsOn: {cc: 1.0.0}}
    cc: {image: i, version: 1.0.0, dependsOn: {aa: 1.0.0}}
    dd: {image: i, version: 1.0.0, dependsOn: {aa: 2.0.0, zz: 1.0.0}}
`)},
			want: []string{
				`NodeWright/x: spec.packages.aa.dependsOn.bb: dependency cycle: aa -> bb -> cc -> aa`,
				`NodeWright/x: spec.packages.dd.dependsOn.aa: needs aa 2.0.0, but this NodeWright has aa 1.0.0 (allowed: 1.0.0)`,
				`NodeWright/x: spec.packages.dd.dependsOn.zz: there is no package "zz" in this NodeWright (allowed: aa, bb, cc, dd)`,
			},
		},
		"two cycles through one package": {
			docs: []string{wright("x", `  packages:
    aa: {image: i, version: 1.0.0, dependsOn: {bb: 1.0.0, cc: 1.0.0}}
    bb: {image: i, version: 1.0.0, dependsOn: {aa: 1.0.0}}
    cc: {image: i, version: 1.0.0, dependsOn: {aa: 1.0.0}}
`)},
			want: []string{
				`NodeWright/x: spec.packages.aa.dependsOn.bb: dependency cycle: aa -> bb -> aa`,
				`NodeWright/x: spec.packages.aa.dependsOn.cc: dependency cycle: aa -> cc -> aa`,
			},
		},
		"a cycle that the catalogue closes": {
			docs: []string{catalogue("aa", `{image: i, version: 1.0.0, dependsOn: {bb: 1.0.0}}`),
				wright("x", "  packages:\n    aa: {packageRef: {name: aa}}\n    bb: {image: i, version: 1.0.0, dependsOn: {aa: 1.0.0}}\n")},
			want: []string{`NodeWright/x: spec.packages.aa: dependency cycle: aa -> bb -> aa`},
		},
		"config interrupts": {
			docs: []string{wright("x", `  packages:
    aa: {image: i, version: 1.0.0, configMap: {a.conf: b}, configInterrupts: {"*.conf": {type: noop}, a.conf: {type: noop}, b.conf: {type: noop}, "*.sh": {type: noop}}}
`)},
			want: []string{
				`NodeWright/x: spec.packages.aa.configInterrupts["*.sh"]: "*.sh" matches no key of configMap (allowed: a.conf)`,
				`NodeWright/x: spec.packages.aa.configInterrupts["b.conf"]: "b.conf" matches no key of configMap (allowed: a.conf)`,
			},
		},
		"selector that matches nothing": {
			docs: []string{wright("x", "  nodeSelectors: {matchLabels: {pool: cpu}}\n")},
			opts: manifest.Options{Nodes: []map[string]string{{"pool": "gpu"}, {}}},
			want: []string{`NodeWright/x: spec.nodeSelectors: matches none of the 2 nodes`},
		},
		"selector that matches only outside of the scope": {
			docs: []string{wright("x", "  nodeSelectors: {matchLabels: {tier: a}}\n")},
			opts: manifest.Options{Scope: scope, Nodes: []map[string]string{{"tier": "a", "pool": "cpu"}}},
			want: []string{`NodeWright/x: spec.nodeSelectors: matches none of the 1 nodes`},
		},
		"FieldReport_D06 one package in two NodeWrights on the same nodes": {
			docs: []string{
				wright("x", "  nodeSelectors: {matchLabels: {pool: gpu}}\n  packages: {tuning: {image: i, version: 1.0.0}}\n"),
				wright("z", "  nodeSelectors: {matchLabels: {tier: a}}\n  packages: {tuning: {image: i, version: 2.0.0}}\n"),
			},
			want: []string{`NodeWright/z: spec.packages.tuning: package "tuning" is also in NodeWright/x, and a node may match both: they would change the same host`},
		},
		"FieldReport_D06 not on the same nodes, by their selectors": {
			docs: []string{
				wright("x", "  nodeSelectors: {matchLabels: {pool: gpu}}\n  packages: {tuning: {image: i, version: 1.0.0}}\n"),
				wright("z", "  nodeSelectors: {matchExpressions: [{key: pool, operator: In, values: [cpu, big]}]}\n  packages: {tuning: {image: i, version: 2.0.0}}\n"),
			},
		},
		"FieldReport_D06 not on the same nodes, by their labels": {
			docs: []string{
				wright("x", "  nodeSelectors: {matchLabels: {pool: gpu}}\n  packages: {tuning: {image: i, version: 1.0.0}}\n"),
				wright("z", "  nodeSelectors: {matchLabels: {tier: a}}\n  packages: {tuning: {image: i, version: 2.0.0}}\n"),
			},
			opts: manifest.Options{Nodes: []map[string]string{{"pool": "gpu"}, {"tier": "a"}}},
		},
		"scope": {
			docs: []string{catalogue("bb", `{image: docker.io/b, version: 1.0.0, interrupt: {type: reboot}}`),
				wright("x", `  packages:
    aa: {image: ghcr.io/x/y/z, version: 1.0.0, interrupt: {type: reboot}, configMap: {a: b}, configInterrupts: {a: {type: restartAllServices}}}
    bb: {packageRef: {name: bb}}
    cc: {image: ghcr.io/x/y, version: 1.0.0, interrupt: {type: noop}}
`)},
			opts: manifest.Options{Scope: scope},
			want: []string{
				`NodeWright/x: spec.packages.aa.configInterrupts.a.type: interrupt "restartAllServices" is outside of the Fleet's scope (allowed: service, noop)`,
				`NodeWright/x: spec.packages.aa.image: image "ghcr.io/x/y/z" is outside of the Fleet's scope (allowed: ghcr.io/x/*)`,
				`NodeWright/x: spec.packages.aa.interrupt.type: interrupt "reboot" is outside of the Fleet's scope (allowed: service, noop)`,
				`Package/bb: spec.image: image "docker.io/b" is outside of the Fleet's scope (allowed: ghcr.io/x/*)`,
				`Package/bb: spec.interrupt.type: interrupt "reboot" is outside of the Fleet's scope (allowed: service, noop)`,
			},
		},
		"scope holds for what comes from elsewhere": {
			docs: []string{wright("x", "  packages:\n    aa: {packageRef: {name: aa}}\n")},
			opts: manifest.Options{Scope: &fleetv1.Scope{Images: []string{"docker.io/**"}}, Elsewhere: manifest.Set{Packages: packagesNamed("aa")}},
			want: []string{`NodeWright/x: spec.packages.aa: image "ghcr.io/x/aa" is outside of the Fleet's scope (allowed: docker.io/**)`},
		},
		"digests": {
			docs: []string{wright("x", "  packages:\n    aa: {image: a, version: 1.0.0}\n")},
			opts: manifest.Options{Scope: &fleetv1.Scope{RequireDigest: true}},
			want: []string{`NodeWright/x: spec.packages.aa.image: package "aa" needs containerSHA, because the Fleet's scope requires digests`},
		},
		"duplicate object": {
			docs: []string{wright("x", "  serial: true\n"), wright("x", "  serial: false\n")},
			want: []string{`NodeWright/x: metadata.name: NodeWright/x is declared twice, also in another document`},
		},
		"kinds that are not delivered": {
			docs: []string{"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", "apiVersion: skyhook.nvidia.com/v1alpha1\nkind: Skyhook\nmetadata: {name: s}\n"},
			want: []string{
				`Secret/s: kind: v1 Secret cannot be delivered to a fleet (allowed: nodewright.nvidia.com/v1alpha1 NodeWright, nodewright.nvidia.com/v1alpha1 DeploymentPolicy, fleetwright.dev/v1alpha1 Package)`,
				`Skyhook/s: kind: skyhook.nvidia.com/v1alpha1 Skyhook cannot be delivered to a fleet (allowed: nodewright.nvidia.com/v1alpha1 NodeWright, nodewright.nvidia.com/v1alpha1 DeploymentPolicy, fleetwright.dev/v1alpha1 Package)`,
			},
		},
		"a Fleet cannot change itself": {
			docs: []string{"apiVersion: fleetwright.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f, namespace: n}\nspec: {source: {url: 'https://a'}}\n"},
			want: []string{`Fleet/f: kind: fleetwright.dev/v1alpha1 Fleet cannot be delivered to a fleet (allowed: nodewright.nvidia.com/v1alpha1 NodeWright, nodewright.nvidia.com/v1alpha1 DeploymentPolicy, fleetwright.dev/v1alpha1 Package)`},
		},
		"windows and selectors of a policy": {
			docs: []string{policyP + "  windows: [{cron: 0 25 * * *, duration: 0s, timeZone: Mars/Base}]\n  compartments:\n" +
				"  - {name: a, selector: {matchLabels: {a: b}}, budget: {count: 1}}\n  - {name: b, selector: {matchLabels: {a: b}}, budget: {count: 1}}\n"},
			want: []string{
				`DeploymentPolicy/p: spec.compartments[1].selector: is the selector of compartment "a", too: no node would ever belong to one of them`,
				`DeploymentPolicy/p: spec.windows[0].cron: "0 25 * * *" is not minute, hour, day of month, month, day of week: end of range (25) above maximum (23): 25 (allowed: minute, hour, day of month, month, day of week, such as 0 2 * * 6)`,
				`DeploymentPolicy/p: spec.windows[0].duration: must be more than zero`,
				`DeploymentPolicy/p: spec.windows[0].timeZone: "Mars/Base" is not a name of the tz database, as Europe/Berlin or UTC (allowed: UTC, Europe/Berlin, America/New_York, …)`,
			},
		},
		"a label that a version from the catalogue makes too long": {
			docs: []string{catalogue("p", `{image: a, version: 1.2.3-45678901234567890}`),
				wright("x", "  packages:\n    a23456789-123456789-123456789-123456789-abc: {packageRef: {name: p}}\n")},
			want: []string{`NodeWright/x: spec.packages.a23456789-123456789-123456789-123456789-abc: a23456789-123456789-123456789-123456789-abc-1.2.3-45678901234567890 must be at most 63 characters, because it becomes a label value`},
		},
	}
	v := newValidator(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var objects []manifest.Object
			for _, doc := range tc.docs {
				objects = append(objects, object(t, doc, ""))
			}
			_, findings := v.Validate(objects, nil, tc.opts)
			require.Equal(t, strings.Join(tc.want, "\n"), strings.Join(texts(findings), "\n"))
		})
	}
}
