package explain

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/fleetwright/fleetwright/pkg/adapter/cluster"
)

// narrowed lists live what the reconciler's caches hold: of some kinds only the objects with certain labels.
type narrowed struct {
	client.Client
	namespace string
}

func newNarrowed(live client.Client, namespace string) narrowed { return narrowed{live, namespace} }

// List implements client.Reader.
func (r narrowed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	selector, err := r.selectorOf(list)
	if err != nil {
		return err
	}
	if selector != nil {
		opts = append(opts, client.MatchingLabelsSelector{Selector: selector})
	}
	return r.Client.List(ctx, list, opts...)
}

// selectorOf is the selector of the cache for the kind of a list; nil if it holds all objects.
func (r narrowed) selectorOf(list client.ObjectList) (labels.Selector, error) {
	kind, err := apiutil.GVKForObject(list, r.Scheme())
	if err != nil {
		return nil, fmt.Errorf("find kind of list: %w", err)
	}
	for object, by := range cluster.CacheOptions(r.namespace).ByObject {
		have, err := apiutil.GVKForObject(object, r.Scheme())
		if err != nil {
			return nil, fmt.Errorf("find kind of cache: %w", err)
		}
		if have.GroupVersion() == kind.GroupVersion() && have.Kind == strings.TrimSuffix(kind.Kind, "List") {
			return by.Label, nil
		}
	}
	return nil, nil
}
