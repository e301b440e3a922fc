package chart_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{}) }

const (
	namespace = "fleetwright"
	patience  = 30 * time.Second
	interval  = 50 * time.Millisecond
)

var (
	installOnce sync.Once
	errInstall  = errors.New("not installed")
)

// installed returns the administrator's configuration of a cluster in which the chart is installed, with a second namespace
// for Fleets, team-a.
func installed(t *testing.T) *rest.Config {
	t.Helper()
	cfg := cluster.Shared(t).Config()
	installOnce.Do(func() { errInstall = install(t.Context(), cfg) })
	require.NoError(t, errInstall)
	return cfg
}

func install(ctx context.Context, cfg *rest.Config) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	for _, name := range []string{"team-a", "team-b"} {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return chart.Apply(ctx, cfg, namespace, values())
}

func values() map[string]any {
	return map[string]any{
		"replicas":      0,
		"networkPolicy": map[string]any{"enabled": true},
		"fleet": map[string]any{
			"namespaces": []any{namespace, "team-a"}, "create": true, "name": "us-east-1",
			"spec": map[string]any{"source": map[string]any{"url": "https://git.example.com/acme/fleet.git"}},
		},
	}
}

// asReconciler is the configuration of the chart's reconciler.
func asReconciler(t *testing.T) *rest.Config {
	t.Helper()
	cfg, err := chart.ReconcilerConfig(t.Context(), installed(t), namespace)
	require.NoError(t, err)
	return cfg
}

func clientOf(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	return client
}

func dynamicOf(t *testing.T, cfg *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	return client
}

// right is one question to the API server's authorizer.
type right struct{ verb, group, resource, namespace, name string }

func (r right) String() string {
	return r.verb + " " + r.group + "/" + r.resource + " in " + r.namespace + " named " + r.name
}

func allowed(t *testing.T, client kubernetes.Interface, account string, r right) bool {
	t.Helper()
	resource, subresource := r.resource, ""
	for i := range resource {
		if resource[i] == '/' {
			resource, subresource = resource[:i], resource[i+1:]
			break
		}
	}
	review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + namespace + ":" + account,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.verb, Group: r.group, Resource: resource, Subresource: subresource,
				Namespace: r.namespace, Name: r.name,
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return review.Status.Allowed
}

func TestApplyIsIdempotent(t *testing.T) {
	cfg := installed(t)
	versions := func() map[string]string {
		objects, err := chart.Render(t.Context(), cfg, namespace, values())
		require.NoError(t, err)
		found := map[string]string{}
		for _, o := range objects {
			if o.GetKind() == "Deployment" { // its status moves
				continue
			}
			resource := schema.GroupVersionResource{
				Group: o.GroupVersionKind().Group, Version: o.GroupVersionKind().Version, Resource: plural(o.GetKind()),
			}
			live, err := dynamicOf(t, cfg).Resource(resource).Namespace(o.GetNamespace()).
				Get(t.Context(), o.GetName(), metav1.GetOptions{})
			require.NoError(t, err, "%s %s", o.GetKind(), o.GetName())
			found[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = live.GetResourceVersion()
		}
		return found
	}
	// The API server stores the status that it fills in for a new object with the first write after its creation.
	require.NoError(t, chart.Apply(t.Context(), cfg, namespace, values()))
	before := versions()
	require.NoError(t, chart.Apply(t.Context(), cfg, namespace, values()))
	require.Equal(t, before, versions())
}

func plural(kind string) string {
	switch kind {
	case "NetworkPolicy":
		return "networkpolicies"
	case "PriorityClass":
		return "priorityclasses"
	case "ValidatingAdmissionPolicy":
		return "validatingadmissionpolicies"
	}
	lower := []byte(kind)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower) + "s"
}

// TestReconcilerPassesRestricted creates the Deployment's pod, as a dry run, where the strictest pod security holds.
func TestReconcilerPassesRestricted(t *testing.T) {
	client := clientOf(t, installed(t))
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "restricted", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	_, err := client.CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{})
	require.NoError(t, err)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: chart.ReconcilerAccount}}
	_, err = client.CoreV1().ServiceAccounts("restricted").Create(t.Context(), account, metav1.CreateOptions{})
	require.NoError(t, err)
	deployment, err := client.AppsV1().Deployments(namespace).Get(t.Context(), "fleetwright-reconciler", metav1.GetOptions{})
	require.NoError(t, err)
	pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
	pod.Name = "reconciler"
	_, err = client.CoreV1().Pods("restricted").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{"All"}})
	require.NoError(t, err)

	pod.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
	_, err = client.CoreV1().Pods("restricted").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{"All"}})
	require.True(t, apierrors.IsForbidden(err), "the namespace does enforce: %v", err)
}

func TestRenderRefusesRestrictedNamespace(t *testing.T) {
	cfg := installed(t)
	client := clientOf(t, cfg)
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "baseline", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"},
	}}
	_, err := client.CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = chart.Render(t.Context(), cfg, "baseline", nil)
	require.ErrorContains(t, err, "namespace baseline enforces the pod security level baseline, but executions change the host "+
		"and run privileged: kubectl label namespace baseline pod-security.kubernetes.io/enforce=privileged --overwrite")
}

func TestRenderRefusesForeignCRDs(t *testing.T) {
	cfg := installed(t)
	crds := dynamicOf(t, cfg).Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	name := "nodewrights.nodewright.nvidia.com"
	edit := func(change func(*unstructured.Unstructured)) {
		t.Helper()
		crd, err := crds.Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
		require.NoError(t, err)
		change(crd)
		_, err = crds.Update(context.WithoutCancel(t.Context()), crd, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	original, err := crds.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		edit(func(crd *unstructured.Unstructured) {
			crd.Object["spec"] = original.Object["spec"]
			crd.SetAnnotations(original.GetAnnotations())
		})
	})
	adopt := map[string]any{"adoptCRDs": true}

	edit(func(crd *unstructured.Unstructured) {
		crd.SetAnnotations(map[string]string{
			"meta.helm.sh/release-name": "nodewright", "meta.helm.sh/release-namespace": "nvidia",
		})
	})
	_, err = chart.Render(t.Context(), cfg, namespace, nil)
	require.ErrorContains(t, err, "CustomResourceDefinition "+name+" belongs to the Helm release nvidia/nodewright: "+
		"Fleetwright does not replace it. Take the CRDs over as docs/operations.md describes, or set adoptCRDs=true")
	_, err = chart.Render(t.Context(), cfg, namespace, adopt)
	require.NoError(t, err)

	edit(func(crd *unstructured.Unstructured) {
		crd.SetAnnotations(nil)
		version := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
		version["schema"] = map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "x-kubernetes-preserve-unknown-fields": true,
		}}
		delete(version, "additionalPrinterColumns")
	})
	_, err = chart.Render(t.Context(), cfg, namespace, nil)
	require.ErrorContains(t, err, "CustomResourceDefinition "+name+" is not Fleetwright's, or is older than this chart "+
		"(it has no field packageRef)")
	_, err = chart.Render(t.Context(), cfg, namespace, adopt)
	require.NoError(t, err)
}
