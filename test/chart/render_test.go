package chart_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetwright/fleetwright/test/chart"
)

// render renders the chart without a cluster and returns its objects by `Kind namespace/name`.
func render(t *testing.T, values map[string]any) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := chart.Render(t.Context(), nil, "fleet-system", values)
	require.NoError(t, err)
	byName := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		key := o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
		require.NotContains(t, byName, key, "rendered twice")
		byName[key] = o
	}
	return byName
}

func at(t *testing.T, object *unstructured.Unstructured, path ...string) any {
	t.Helper()
	require.NotNil(t, object)
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	require.NoError(t, err)
	require.True(t, found, "%s has no %s", object.GetName(), strings.Join(path, "."))
	return value
}

func TestRenderDefaults(t *testing.T) {
	objects := render(t, nil)
	var names []string
	for name := range objects {
		names = append(names, name)
	}
	require.ElementsMatch(t, []string{
		"ClusterRole fleetwright-editor",
		"ClusterRole fleetwright-interrupt",
		"ClusterRole fleetwright-reconciler",
		"ClusterRole fleetwright-viewer",
		"ClusterRoleBinding fleetwright-interrupt",
		"ClusterRoleBinding fleetwright-reconciler",
		"Deployment fleet-system/fleetwright-reconciler",
		"PodDisruptionBudget fleet-system/fleetwright-reconciler",
		"PriorityClass fleetwright-execution",
		"Role fleet-system/fleetwright-impersonation",
		"Role fleet-system/fleetwright-reconciler",
		"Role fleet-system/fleetwright-secrets",
		"RoleBinding fleet-system/fleetwright-impersonation",
		"RoleBinding fleet-system/fleetwright-reconciler",
		"RoleBinding fleet-system/fleetwright-secrets",
		"Service fleet-system/fleetwright-metrics",
		"ServiceAccount fleet-system/fleetwright-execution",
		"ServiceAccount fleet-system/fleetwright-interrupt",
		"ServiceAccount fleet-system/fleetwright-reconciler",
		"ClusterRole fleetwright-reviewer",
		"ClusterRoleBinding fleetwright-reviewer",
		"Deployment fleet-system/fleetwright-reviewer",
		"Role fleet-system/fleetwright-reviewer",
		"RoleBinding fleet-system/fleetwright-reviewer",
		"RoleBinding fleet-system/fleetwright-reviewer-secrets",
		"Service fleet-system/fleetwright-reviewer-metrics",
		"ServiceAccount fleet-system/fleetwright-reviewer",
		"ValidatingAdmissionPolicy fleetwright-ownership",
		"ValidatingAdmissionPolicy fleetwright-state",
		"ValidatingAdmissionPolicyBinding fleetwright-ownership",
		"ValidatingAdmissionPolicyBinding fleetwright-state",
	}, names)
}

func TestRenderReconcilerIsConfined(t *testing.T) {
	deployment := render(t, nil)["Deployment fleet-system/fleetwright-reconciler"]
	require.EqualValues(t, 2, at(t, deployment, "spec", "replicas"))
	pod := at(t, deployment, "spec", "template", "spec").(map[string]any)
	require.Equal(t, map[string]any{
		"runAsNonRoot": true, "runAsUser": float64(65532), "runAsGroup": float64(65532), "fsGroup": float64(65532),
		"seccompProfile": map[string]any{"type": "RuntimeDefault"},
	}, pod["securityContext"])
	require.NotContains(t, pod, "hostNetwork")
	require.NotContains(t, pod, "volumes")
	container := pod["containers"].([]any)[0].(map[string]any)
	require.Equal(t, map[string]any{
		"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
		"capabilities": map[string]any{"drop": []any{"ALL"}},
	}, container["securityContext"])
	require.Equal(t, "ghcr.io/fleetwright/reconciler:0.1.0", container["image"])
	require.Equal(t, []any{
		"--namespace=fleet-system",
		"--agent-image=ghcr.io/fleetwright/agent:0.1.0",
		"--host-root=/",
		"--attempts=3",
		"--stage-timeout=1h",
		"--metrics-address=:8080",
		"--probe-address=:8081",
		"--log-level=info",
	}, container["args"])
}

func TestRenderExecutionAccountHasNothing(t *testing.T) {
	objects := render(t, nil)
	account := objects["ServiceAccount fleet-system/fleetwright-execution"]
	require.Equal(t, false, at(t, account, "automountServiceAccountToken"))
	for name, object := range objects {
		if !strings.HasSuffix(object.GetKind(), "RoleBinding") {
			continue
		}
		for _, subject := range at(t, object, "subjects").([]any) {
			require.NotEqual(t, "fleetwright-execution", subject.(map[string]any)["name"], name)
		}
	}
}

func TestRenderOptions(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	objects := render(t, map[string]any{
		"replicas":         1,
		"image":            map[string]any{"digest": digest},
		"imagePullSecrets": []any{"pull"},
		"reconciler":       map[string]any{"extraArgs": []any{"--webhook-address=:9000"}, "hostRoot": "/srv/root"},
		"admission":        map[string]any{"enabled": false},
		"priorityClass":    map[string]any{"create": false},
		"rbac":             map[string]any{"aggregate": false, "deletePods": true},
		"networkPolicy":    map[string]any{"enabled": true},
		"metrics": map[string]any{
			"serviceMonitor": map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}},
			"prometheusRule": map[string]any{"enabled": true},
		},
		"fleet": map[string]any{
			"create":     true,
			"name":       "us-east-1",
			"namespaces": []any{"fleet-system", "team-a"},
			"spec":       map[string]any{"source": map[string]any{"url": "https://git.example.com/acme/fleet.git"}},
		},
	})
	require.NotContains(t, objects, "PodDisruptionBudget fleet-system/fleetwright-reconciler", "it would block every drain")
	require.NotContains(t, objects, "ValidatingAdmissionPolicy fleetwright-state")
	require.NotContains(t, objects, "PriorityClass fleetwright-execution")
	require.NotContains(t, objects, "ClusterRole fleetwright-viewer")
	rules := at(t, objects["ClusterRole fleetwright-reconciler"], "rules").([]any)
	require.Equal(t, []any{"get", "list", "watch", "delete"}, rules[1].(map[string]any)["verbs"])
	require.Contains(t, objects, "NetworkPolicy fleet-system/fleetwright-reconciler")
	require.Contains(t, objects, "ServiceMonitor fleet-system/fleetwright")
	groups := at(t, objects["PrometheusRule fleet-system/fleetwright"], "spec", "groups").([]any)
	require.NotEmpty(t, groups[0].(map[string]any)["rules"])
	require.Contains(t, objects, "Role team-a/fleetwright-secrets")
	require.Equal(t, "https://git.example.com/acme/fleet.git",
		at(t, objects["Fleet fleet-system/us-east-1"], "spec", "source", "url"))
	container := at(t, objects["Deployment fleet-system/fleetwright-reconciler"], "spec", "template", "spec", "containers")
	first := container.([]any)[0].(map[string]any)
	require.Equal(t, "ghcr.io/fleetwright/reconciler@"+digest, first["image"])
	require.Contains(t, first["args"], "--webhook-address=:9000")
	require.Contains(t, first["args"], "--host-root=/srv/root")
}

func TestRenderRefusesBadValues(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]any
		want   string
	}{
		"a typo":             {map[string]any{"replica": 2}, "additional properties 'replica' not allowed"},
		"no digest":          {map[string]any{"image": map[string]any{"digest": "latest"}}, "'/image/digest': 'latest' does not match pattern"},
		"a duration of days": {map[string]any{"reconciler": map[string]any{"stageTimeout": "1d"}}, "'1d' does not match pattern"},
		"a Fleet of nothing": {map[string]any{"fleet": map[string]any{"create": true}}, "missing property 'source'"},
		"a Fleet whose Secrets cannot be read": {map[string]any{"fleet": map[string]any{
			"create": true, "namespaces": []any{"team-a"}, "spec": map[string]any{"source": map[string]any{"url": "https://x"}},
		}}, "fleet.create puts a Fleet into fleet-system, but fleet.namespaces does not list it, so its Secrets could not be read: add it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := chart.Render(t.Context(), nil, "fleet-system", c.values)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestRenderRefusesTheDefaultNamespace(t *testing.T) {
	_, err := chart.Render(t.Context(), nil, "default", nil)
	require.ErrorContains(t, err, "install Fleetwright into a namespace of its own, not into default")
}

func TestNotes(t *testing.T) {
	notes, err := chart.Notes(t.Context(), nil, "fleet-system", map[string]any{"replicas": 0, "adoptCRDs": true})
	require.NoError(t, err)
	require.Contains(t, notes, "replicas is 0: nothing happens until you raise it.")
	require.Contains(t, notes, "There is no Fleet yet.")
	require.Contains(t, notes, "pod-security.kubernetes.io/enforce=privileged")
	require.Contains(t, notes, "adoptCRDs is set")
}

// TestRenderReviewer: it is confined as the reconciler is, its role has no verb that changes anything but events, and it can be left out.
func TestRenderReviewer(t *testing.T) {
	objects := render(t, map[string]any{"fleet": map[string]any{"namespaces": []any{"team-a"}}, "networkPolicy": map[string]any{"enabled": true}})
	pod := at(t, objects["Deployment fleet-system/fleetwright-reviewer"], "spec", "template", "spec").(map[string]any)
	require.Equal(t, at(t, objects["Deployment fleet-system/fleetwright-reconciler"], "spec", "template", "spec", "securityContext"), pod["securityContext"])
	require.NotContains(t, pod, "volumes")
	container := pod["containers"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"--review=true", "--namespace=fleet-system", "--metrics-address=:8080", "--probe-address=:8081", "--log-level=info"}, container["args"])
	require.Equal(t, "1536Mi", container["resources"].(map[string]any)["limits"].(map[string]any)["memory"])
	for _, rule := range at(t, objects["ClusterRole fleetwright-reviewer"], "rules").([]any) {
		if r := rule.(map[string]any); r["resources"].([]any)[0] != "events" {
			for _, verb := range r["verbs"].([]any) {
				require.Contains(t, []any{"get", "list", "watch"}, verb, "%v", r)
			}
		}
	}
	require.Contains(t, objects, "RoleBinding team-a/fleetwright-reviewer-secrets")
	require.Contains(t, objects, "NetworkPolicy fleet-system/fleetwright-reviewer")
	for name := range render(t, map[string]any{"reviewer": map[string]any{"enabled": false}}) {
		require.NotContains(t, name, "reviewer")
	}
}
