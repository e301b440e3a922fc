package chart_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/test/chart"
)

func TestRenderWebhook(t *testing.T) {
	for name := range render(t, nil) {
		require.NotContains(t, name, "webhook", "off by default")
	}
	objects := render(t, map[string]any{
		"webhook": map[string]any{
			"enabled": true, "port": 9000, "service": map[string]any{"annotations": map[string]any{"a": "b"}},
			"ingress":   map[string]any{"enabled": true, "className": "nginx", "host": "hooks.example.com", "tlsSecretName": "hooks"},
			"httpRoute": map[string]any{"enabled": true, "parentRefs": []any{map[string]any{"name": "edge"}}, "hostnames": []any{"hooks.example.com"}},
		},
		"networkPolicy": map[string]any{"enabled": true, "webhookFrom": []any{map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": "nginx"}}}}},
	})
	deployment := objects["Deployment fleet-system/fleetwright-reconciler"]
	container := at(t, deployment, "spec", "template", "spec", "containers").([]any)[0].(map[string]any)
	require.Contains(t, container["args"], "--webhook-address=:9000")
	require.Contains(t, container["ports"], map[string]any{"name": "webhook", "containerPort": float64(9000)})

	service := objects["Service fleet-system/fleetwright-webhook"]
	require.Equal(t, "ClusterIP", at(t, service, "spec", "type"))
	require.Equal(t, at(t, deployment, "spec", "selector", "matchLabels"), at(t, service, "spec", "selector"), "every replica answers")
	require.Equal(t, []any{map[string]any{"name": "webhook", "port": float64(9000), "targetPort": "webhook", "appProtocol": "http"}}, at(t, service, "spec", "ports"))
	require.Equal(t, "b", service.GetAnnotations()["a"])

	ingress := objects["Ingress fleet-system/fleetwright-webhook"]
	require.Equal(t, "nginx", at(t, ingress, "spec", "ingressClassName"))
	require.Equal(t, []any{map[string]any{"hosts": []any{"hooks.example.com"}, "secretName": "hooks"}}, at(t, ingress, "spec", "tls"))
	rule := at(t, ingress, "spec", "rules").([]any)[0].(map[string]any)
	require.Equal(t, "hooks.example.com", rule["host"])
	path := rule["http"].(map[string]any)["paths"].([]any)[0].(map[string]any)
	require.Equal(t, "/webhook", path["path"])
	require.Equal(t, "Exact", path["pathType"], "nothing else of the process is reachable")

	route := objects["HTTPRoute fleet-system/fleetwright-webhook"]
	require.Equal(t, "gateway.networking.k8s.io/v1", route.GetAPIVersion())
	require.Equal(t, []any{map[string]any{"name": "edge"}}, at(t, route, "spec", "parentRefs"))
	require.Equal(t, []any{map[string]any{
		"matches":     []any{map[string]any{"method": "POST", "path": map[string]any{"type": "Exact", "value": "/webhook"}}},
		"backendRefs": []any{map[string]any{"name": "fleetwright-webhook", "port": float64(9000)}},
	}}, at(t, route, "spec", "rules"))

	require.Contains(t, at(t, objects["NetworkPolicy fleet-system/fleetwright-reconciler"], "spec", "ingress"), map[string]any{
		"ports": []any{map[string]any{"port": "webhook"}},
		"from":  []any{map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": "nginx"}}}},
	})
}

func TestRenderWebhookRefusesBadValues(t *testing.T) {
	for name, c := range map[string]struct {
		webhook map[string]any
		want    string
	}{
		"an Ingress for nothing":         {map[string]any{"ingress": map[string]any{"enabled": true, "host": "x.example.com"}}, "'/webhook/enabled'"},
		"an HTTPRoute for nothing":       {map[string]any{"httpRoute": map[string]any{"enabled": true, "parentRefs": []any{map[string]any{"name": "x"}}}}, "'/webhook/enabled'"},
		"an Ingress without a host":      {map[string]any{"enabled": true, "ingress": map[string]any{"enabled": true}}, "'/webhook/ingress/host'"},
		"an HTTPRoute without a Gateway": {map[string]any{"enabled": true, "httpRoute": map[string]any{"enabled": true}}, "'/webhook/httpRoute/parentRefs'"},
		"a host with a path":             {map[string]any{"enabled": true, "ingress": map[string]any{"host": "x.example.com/y"}}, "'/webhook/ingress/host'"},
		"a low port":                     {map[string]any{"enabled": true, "port": 80}, "'/webhook/port'"},
		"a typo":                         {map[string]any{"enable": true}, "additional properties 'enable' not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := chart.Render(t.Context(), nil, "fleet-system", map[string]any{"webhook": c.webhook})
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestNotesOfWebhooks(t *testing.T) {
	for want, webhook := range map[string]map[string]any{
		"Forges send webhooks to http://fleetwright-webhook.fleet-system.svc:9292/webhook. A Fleet takes them": {"enabled": true},
		"Forges send webhooks to https://hooks.example.com/webhook. A Fleet takes them": {
			"enabled": true, "ingress": map[string]any{"enabled": true, "host": "hooks.example.com", "tlsSecretName": "x"},
		},
		"Forges send webhooks to http://hooks.example.com/webhook. A Fleet takes them with spec.webhook.secretRef.\nwebhook.ingress.tlsSecretName is empty": {
			"enabled": true, "ingress": map[string]any{"enabled": true, "host": "hooks.example.com"},
		},
	} {
		notes, err := chart.Notes(t.Context(), nil, "fleet-system", map[string]any{"webhook": webhook})
		require.NoError(t, err)
		require.Contains(t, notes, want)
	}
	notes, err := chart.Notes(t.Context(), nil, "fleet-system", nil)
	require.NoError(t, err)
	require.NotContains(t, notes, "webhook")
}
