package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
)

const fleetF = "apiVersion: fleetwright.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f, namespace: fleets}\nspec:\n  source: {url: 'https://git.example.com/x'}\n"

// TestDeliveryReport_SV01_UnknownFieldsAreErrors: there is no lax mode. The message says what was meant.
func TestDeliveryReport_SV01_UnknownFieldsAreErrors(t *testing.T) {
	v := newValidator(t)
	for name, tc := range map[string]struct{ doc, want string }{
		"package of a NodeWright": {wright("x", "  packages: {tuning: {image: a, vesrion: 1.2.0, packageRef: {name: p}}}\n"),
			"NodeWright/x: spec.packages.tuning.vesrion: unknown field, did you mean version? (allowed: "},
		"NodeWright": {wright("x", "  prioritty: 1\n"), "NodeWright/x: spec.prioritty: unknown field, did you mean priority? (allowed: "},
		"top":        {strings.Replace(wright("x", "  priority: 1\n"), "spec:", "specs: {}\nspec:", 1), "NodeWright/x: specs: unknown field, did you mean spec? (allowed: "},
		"Package":    {catalogue("x", "{image: a, version: 1.0.0, Env: []}"), "Package/x: spec.Env: unknown field, did you mean env? (allowed: "},
		"policy": {policyP + "  compartments: [{name: a, selector: {matchLabels: {a: b}}, budget: {cuont: 1, count: 1}}]\n",
			"DeploymentPolicy/p: spec.compartments[0].budget.cuont: unknown field, did you mean count? (allowed: "},
		"Fleet":               {fleetF + "  intreval: 1m\n", "Fleet/f: spec.intreval: unknown field, did you mean interval? (allowed: "},
		"nothing like it":     {wright("x", "  zzz: 1\n"), "NodeWright/x: spec.zzz: unknown field (allowed: "},
		"other letters":       {wright("x", "  Priority: 1\n"), "NodeWright/x: spec.Priority: unknown field, did you mean priority? (allowed: "},
		"with an empty value": {wright("x", "  zzz: null\n"), "NodeWright/x: spec.zzz: unknown field (allowed: "},
	} {
		t.Run(name, func(t *testing.T) {
			findings := v.Check(object(t, tc.doc, ""), nil)
			require.Len(t, findings, 1, texts(findings))
			require.True(t, strings.HasPrefix(texts(findings)[0], tc.want), texts(findings)[0])
			require.Equal(t, manifest.CodeUnknownField, findings[0].Code)
		})
	}
}

// TestDeliveryReport_SV03_TheBranchThatIsMeantIsJudged: where one of several forms is allowed, the message speaks about the form
// that is there, with its place, what stands there and what belongs there.
func TestDeliveryReport_SV03_TheBranchThatIsMeantIsJudged(t *testing.T) {
	v := newValidator(t)
	compartment := func(fields string) string {
		return policyP + "  compartments:\n    - {name: a, selector: {matchLabels: {a: b}}, budget: {count: 1}}\n" +
			"    - {name: b, selector: {matchLabels: {a: c}}, " + fields + "}\n"
	}
	for name, tc := range map[string]struct {
		doc  string
		want []string
	}{
		"second of three strategies": {compartment("budget: {count: 1}, strategy: {linear: {delta: fast}}"),
			[]string{`DeploymentPolicy/p: spec.compartments[1].strategy.linear.delta: must be an integer, not the string "fast"`}},
		"two strategies": {compartment("budget: {count: 1}, strategy: {linear: {}, fixed: {}}"),
			[]string{`DeploymentPolicy/p: spec.compartments[1].strategy: set exactly one of fixed, linear and exponential`}},
		"second form of a budget": {compartment("budget: {percent: 101}"),
			[]string{`DeploymentPolicy/p: spec.compartments[1].budget.percent: must be at most 100, not 101`}},
		"number or percentage": {fleetF + "  disruption: {maxNodes: [1]}\n",
			[]string{`Fleet/f: spec.disruption.maxNodes: must be an integer or a string, not a list`}},
		"second of three packages": {wright("x", "  packages:\n    aa: {image: a, version: 1.0.0}\n    bb: {packageRef: {name: 7}}\n    cc: {packageRef: {name: p}}\n"),
			[]string{`NodeWright/x: spec.packages.bb.packageRef.name: must be a string, not the number 7; put it in quotes`}},
		"no form at all": {wright("x", "  packages:\n    aa: {image: a, version: 1.0.0}\n    bb: {}\n"),
			[]string{`NodeWright/x: spec.packages.bb: image is required, unless packageRef takes it from the catalogue`,
				`NodeWright/x: spec.packages.bb: version is required, unless packageRef takes it from the catalogue`}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, texts(v.Check(object(t, tc.doc, ""), nil)))
		})
	}
}

// TestDeliveryReport_SV06_RulesOfTheServerAreKnownOffline: what the API server would refuse by rules that no JSON Schema can say is
// found before it is asked. What only the server knows comes under a reason of its own (test/delivery).
func TestDeliveryReport_SV06_RulesOfTheServerAreKnownOffline(t *testing.T) {
	v := newValidator(t)
	long := strings.Repeat("a", 64)
	const name = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
	for title, tc := range map[string]struct{ doc, part string }{
		"CEL":                     {wright("x", "  interruptionBudget: {count: 1, percent: 2}\n"), "NodeWright/x: spec.interruptionBudget.count: set percent or count, not both"},
		"name with a capital":     {wright("GPU", "  priority: 1\n"), "NodeWright/GPU: metadata.name: " + name},
		"label of 64 characters":  {strings.Replace(wright("x", "  priority: 1\n"), "{name: x}", "{name: x, labels: {a: "+long+"}}", 1), "NodeWright/x: metadata.labels: must be no more than 63 "},
		"label key with a space":  {strings.Replace(wright("x", "  priority: 1\n"), "{name: x}", "{name: x, labels: {a b: c}}", 1), "NodeWright/x: metadata.labels: "},
		"annotations of 300 kB":   {strings.Replace(wright("x", "  priority: 1\n"), "{name: x}", "{name: x, annotations: {a: "+strings.Repeat("x", 300_000)+"}}", 1), "NodeWright/x: metadata.annotations: "},
		"selector value of 64":    {wright("x", "  nodeSelectors: {matchLabels: {a: "+long+"}}\n"), "NodeWright/x: spec.nodeSelectors.matchLabels.a: "},
		"label that is no string": {strings.Replace(wright("x", "  priority: 1\n"), "{name: x}", "{name: x, labels: {a: 012}}", 1), "NodeWright/x: metadata.labels"},
	} {
		t.Run(title, func(t *testing.T) {
			findings := v.Check(object(t, tc.doc, ""), nil)
			require.Len(t, findings, 1, texts(findings))
			require.True(t, strings.HasPrefix(texts(findings)[0], tc.part), texts(findings)[0])
		})
	}
}

// TestDeliveryReport_SV09_LargeIntegersKeepTheirDigits: 2^53 + 1 is no other number than itself, in what is said and in what is
// delivered.
func TestDeliveryReport_SV09_LargeIntegersKeepTheirDigits(t *testing.T) {
	v := newValidator(t)
	for number, want := range map[string]string{
		"2147483647":           "",
		"2147483648":           "must be at most 2147483647, not 2147483648",
		"9007199254740993":     "must be at most 2147483647, not 9007199254740993",
		"9223372036854775807":  "must be at most 2147483647, not 9223372036854775807",
		"-9007199254740993":    "must be at least 1, not -9007199254740993",
		"9223372036854775808":  "must be at most 2147483647, not a number above 9223372036854775807",
		"18446744073709551616": "must be at most 2147483647, not a number above 9223372036854775807",
		"-1e30":                "must be at least 1, not a number below -9223372036854775808",
		"1.5":                  "must be an integer, not the number 1.5",
	} {
		t.Run(number, func(t *testing.T) {
			o := jsonObject(`{"apiVersion":"nodewright.nvidia.com/v1alpha1","kind":"NodeWright","metadata":{"name":"x"},"spec":{"priority":%s}}`, number)
			if want == "" {
				require.Empty(t, texts(v.Check(o, nil)))
				return
			}
			require.Equal(t, []string{"NodeWright/x: spec.priority: " + want}, texts(v.Check(o, nil)))
		})
	}
	set, findings := v.Validate([]manifest.Object{jsonObject(`{"apiVersion":"nodewright.nvidia.com/v1alpha1","kind":"NodeWright","metadata":{"name":"x"},
		"spec":{"packages":{"aa":{"image":"a","version":"1.0.0","resources":{"cpuRequest":1,"cpuLimit":1,"memoryRequest":9007199254740993,"memoryLimit":9007199254740993}}}}}`)},
		nil, manifest.Options{})
	require.Empty(t, texts(findings))
	_, findings = v.Validate([]manifest.Object{jsonObject(`{"apiVersion":"nodewright.nvidia.com/v1alpha1","kind":"NodeWright","metadata":{"name":"x"},
		"spec":{"packages":{"aa":{"image":"a","version":"1.0.0","resources":{"cpuRequest":1,"cpuLimit":1,"memoryRequest":1,"memoryLimit":18446744073709551617}}}}}`)},
		nil, manifest.Options{})
	require.Equal(t, []string{"NodeWright/x: spec.packages.aa.resources.memoryLimit: is a number above 9223372036854775807, which loses digits; put it in quotes"},
		texts(findings))
	require.Equal(t, "9007199254740993", set.NodeWrights[0].Spec.Packages["aa"].Resources.MemoryLimit.String())
}

func jsonObject(text string, args ...any) manifest.Object {
	return manifest.Object{
		APIVersion: "nodewright.nvidia.com/v1alpha1", Kind: "NodeWright", Name: "x", JSON: []byte(fmt.Sprintf(text, args...)),
	}
}
