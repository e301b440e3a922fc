package chart_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetwright/fleetwright/charts/fleetwright/crds"
	"github.com/fleetwright/fleetwright/test/chart"
)

// everything is the chart with all of its options on.
var everything = map[string]any{
	"imagePullSecrets": []any{"registry"},
	"networkPolicy":    map[string]any{"enabled": true},
	"rbac":             map[string]any{"deletePods": true},
	"admission":        map[string]any{"images": []any{"ghcr.io/acme/**"}},
	"reconciler":       map[string]any{"extraArgs": []any{"--webhook-address=:9000"}},
	"metrics": map[string]any{
		"serviceMonitor": map[string]any{"enabled": true}, "prometheusRule": map[string]any{"enabled": true},
	},
	"fleet": map[string]any{"create": true, "spec": map[string]any{"source": map[string]any{"url": "https://git.example.com/acme/fleet.git"}}},
}

// TestFieldReport_IN01_NoCABundleToLose: no webhook and no conversion calls a server of ours, so there is no certificate
// that an upgrade could empty. What has to be refused is refused by schemas and admission policies inside the API server.
func TestFieldReport_IN01_NoCABundleToLose(t *testing.T) {
	for name, tc := range map[string]struct {
		values   map[string]any
		policies int // for state, and for labels of ownership; for images too where there is a list
	}{"by default": {nil, 2}, "with everything": {everything, 3}} {
		t.Run(name, func(t *testing.T) {
			policies := 0
			for key, object := range render(t, tc.values) {
				require.NotContains(t, object.GetKind(), "Webhook", key)
				require.NotEqual(t, "APIService", object.GetKind(), key)
				text, err := object.MarshalJSON()
				require.NoError(t, err)
				require.NotContains(t, string(text), "caBundle", key)
				if object.GetKind() == "ValidatingAdmissionPolicy" {
					policies++
				}
			}
			require.Equal(t, tc.policies, policies)
		})
	}
	all, err := crds.All()
	require.NoError(t, err)
	for _, crd := range all {
		require.True(t, crd.Spec.Conversion == nil || crd.Spec.Conversion.Strategy == apiextensionsv1.NoneConverter, crd.Name)
	}
}

// TestFieldReport_IN07_NoPolicyStandsInTheWayOfADeletion: what people delete, and finalizers they take off, no policy of ours
// looks at. Only the ledger is guarded.
func TestFieldReport_IN07_NoPolicyStandsInTheWayOfADeletion(t *testing.T) {
	for name, rendered := range render(t, everything) {
		if rendered.GetKind() == "ValidatingAdmissionPolicy" && name != "ValidatingAdmissionPolicy fleetwright-state" {
			require.NotContains(t, fmt.Sprint(at(t, rendered, "spec", "matchConstraints")), "DELETE", name)
			require.NotContains(t, rendered.Object["spec"], "paramKind", name)
		}
	}
	var policy admissionv1.ValidatingAdmissionPolicy
	rendered := render(t, everything)["ValidatingAdmissionPolicy fleetwright-state"]
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(rendered.Object, &policy))
	require.Nil(t, policy.Spec.ParamKind, "a parameter that is missing would refuse everything")
	for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
		for _, resource := range rule.Resources {
			require.Contains(t, []string{"nodes", "nodes/status", "ledgers"}, resource)
		}
		for _, operation := range rule.Operations {
			require.True(t, rule.Resources[0] == "ledgers" || operation != admissionv1.Delete && operation != admissionv1.OperationAll)
		}
	}
}

// TestFieldReport_IN08_PullSecretsOnlyWhereConfigured: none by default; those that are configured and missing are named at the
// installation.
func TestFieldReport_IN08_PullSecretsOnlyWhereConfigured(t *testing.T) {
	secretsOf := func(object *unstructured.Unstructured) []string {
		var names []string
		for _, path := range [][]string{{"imagePullSecrets"}, {"spec", "template", "spec", "imagePullSecrets"}} {
			list, _, err := unstructured.NestedSlice(object.Object, path...)
			require.NoError(t, err)
			for _, one := range list {
				names = append(names, one.(map[string]any)["name"].(string))
			}
		}
		return names
	}
	for key, object := range render(t, nil) {
		require.Empty(t, secretsOf(object), key)
	}
	configured := 0
	for _, object := range render(t, everything) {
		configured += len(secretsOf(object))
	}
	require.Equal(t, 4, configured, "the reconciler, the reviewer, executions and interrupts")

	notes, err := chart.Notes(t.Context(), installed(t), namespace, map[string]any{"imagePullSecrets": []any{"registry"}})
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(notes), " "),
		"The pull secret registry is not in namespace fleetwright: until it is there, images that need it cannot be pulled.")
}
