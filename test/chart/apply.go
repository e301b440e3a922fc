package chart

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// FieldManager is the field manager of everything that Apply writes.
const FieldManager = "helm"

var crdKind = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// Apply installs the chart into the namespace, which it creates, as an administrator with cfg: CRDs that do not exist,
// the templates with server-side apply, and it waits until the CRDs are served. values override values.yaml. Applying the
// same again changes nothing.
//
// The chart's Deployment is applied like the rest: pass `replicas: 0` where the reconciler runs as a process outside.
func Apply(ctx context.Context, cfg *rest.Config, namespace string, values map[string]any) error {
	a, err := newApplier(cfg)
	if err != nil {
		return err
	}
	if err := a.createCRDs(ctx); err != nil {
		return err
	}
	objects, err := Render(ctx, cfg, namespace, values)
	if err != nil {
		return err
	}
	space := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}}
	for _, object := range append([]*unstructured.Unstructured{space}, objects...) {
		if err := a.apply(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// applier writes objects of any kind.
type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newApplier(cfg *rest.Config) (*applier, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}
	return &applier{
		client: client,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds)),
	}, nil
}

// createCRDs creates the CRDs that are missing, as Helm does, and waits until all of them are served.
func (a *applier) createCRDs(ctx context.Context) error {
	crds, err := CRDs()
	if err != nil {
		return err
	}
	if len(crds) == 0 {
		return errors.New("the chart has no CRDs: run `make generate`")
	}
	for _, crd := range crds {
		_, err := a.client.Resource(crdKind).Create(ctx, crd, metav1.CreateOptions{FieldManager: FieldManager})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create CRD %s: %w", crd.GetName(), err)
		}
	}
	for _, crd := range crds {
		if err := a.waitServed(ctx, crd.GetName()); err != nil {
			return err
		}
	}
	a.mapper.Reset()
	return nil
}

// waitServed returns when the CRD is established.
func (a *applier) waitServed(ctx context.Context, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		crd, err := a.client.Resource(crdKind).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return established(crd), nil
	})
	if err != nil {
		return fmt.Errorf("wait for CRD %s: %w", name, err)
	}
	return nil
}

// established reads the CRD's condition. The list is null until the server has looked at a new CRD.
func established(crd *unstructured.Unstructured) bool {
	status, _ := crd.Object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}

func (a *applier) apply(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := a.resourceOf(ctx, object)
	if err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	if _, err := resource.Apply(ctx, object.GetName(), object, options); err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// resourceOf finds the endpoint of the object's kind. A kind whose CRD is new appears in discovery a moment later.
func (a *applier) resourceOf(ctx context.Context, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	var mapping *meta.RESTMapping
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		var err error
		mapping, err = a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			a.mapper.Reset()
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("find kind %s: %w", kind, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return a.client.Resource(mapping.Resource), nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = corev1.NamespaceDefault
	}
	return a.client.Resource(mapping.Resource).Namespace(namespace), nil
}
