package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetwright/fleetwright/charts/fleetwright/crds"
)

const (
	// schemasEvery is how long the answer that all is well holds.
	schemasEvery = 5 * time.Minute
	// namedFields is how many missing fields a message names.
	namedFields = 5
)

// Schemas compares the kinds that the API server serves with the chart's CRDs: Helm does not upgrade CRDs, and of an object
// whose CRD is older the API server drops the fields that it does not know without a word. It reads the OpenAPI documents,
// which every account may. It is safe for concurrent use.
type Schemas struct {
	client kubernetes.Interface
	now    func() time.Time

	mu    sync.Mutex
	asked time.Time // zero: not yet, or something was missing
}

// NewSchemas returns the check. While all is well it asks the API server once in five minutes.
func NewSchemas(client kubernetes.Interface, now func() time.Time) *Schemas {
	return &Schemas{client: client, now: now}
}

// Outdated says, in one sentence, which CRD is missing or lacks which fields; empty if none. Fields that only the cluster
// knows do not matter: it may be newer.
func (s *Schemas) Outdated(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !s.asked.IsZero() && now.Sub(s.asked) < schemasEvery {
		return "", nil
	}
	expected, err := crds.All()
	if err != nil {
		return "", err
	}
	served := map[string]document{}
	for _, crd := range expected {
		problem, err := s.compare(ctx, crd, served)
		if problem != "" || err != nil {
			s.asked = time.Time{}
			return problem, err
		}
	}
	s.asked = now
	return "", nil
}

// document is what is read of the OpenAPI document of one group and version.
type document struct {
	Components struct {
		Schemas map[string]kindSchema `json:"schemas"`
	} `json:"components"`
}

// kindSchema is what is read of a schema.
type kindSchema struct {
	Properties map[string]kindSchema `json:"properties"`
	Items      *kindSchema           `json:"items"`
	// Values is a schema or a boolean.
	Values   json.RawMessage `json:"additionalProperties"`
	KeepsAll bool            `json:"x-kubernetes-preserve-unknown-fields"`
	Kinds    []struct {
		Kind string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind"`
}

func (s *Schemas) compare(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, served map[string]document) (string, error) {
	const remedy = "; apply the directory crds/ of this version's chart with kubectl apply --server-side"
	for _, version := range crd.Spec.Versions {
		path := "/openapi/v3/apis/" + crd.Spec.Group + "/" + version.Name
		if _, read := served[path]; !read {
			doc, err := s.read(ctx, path)
			if err != nil {
				return "", fmt.Errorf("read the served kinds of %s/%s: %w", crd.Spec.Group, version.Name, err)
			}
			served[path] = doc
		}
		have, found := served[path].kind(crd.Spec.Names.Kind)
		if !found {
			return fmt.Sprintf("CustomResourceDefinition %s is not served in version %s", crd.Name, version.Name) + remedy, nil
		}
		want, err := schemaOf(version.Schema.OpenAPIV3Schema)
		if err != nil {
			return "", err
		}
		if missing := missingIn("", have, want); len(missing) > 0 {
			return fmt.Sprintf("CustomResourceDefinition %s is older than this reconciler: the API server drops %s", crd.Name,
				firstOf(missing, namedFields)) + remedy, nil
		}
	}
	return "", nil
}

// read returns an empty document for a group and version that is not served.
func (s *Schemas) read(ctx context.Context, path string) (document, error) {
	var doc document
	raw, err := s.client.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return doc, nil
	}
	if err != nil {
		return doc, err
	}
	return doc, json.Unmarshal(raw, &doc)
}

func (d document) kind(kind string) (kindSchema, bool) {
	for _, s := range d.Components.Schemas {
		if len(s.Kinds) > 0 && s.Kinds[0].Kind == kind && len(s.Properties) > 0 {
			return s, true
		}
	}
	return kindSchema{}, false
}

func schemaOf(props *apiextensionsv1.JSONSchemaProps) (kindSchema, error) {
	var out kindSchema
	raw, err := json.Marshal(props)
	if err != nil {
		return out, fmt.Errorf("encode schema: %w", err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("decode schema: %w", err)
	}
	return out, nil
}

// missingIn are the paths, beginning with path, that want has and have would drop, sorted. What lies below a missing one is not named.
func missingIn(path string, have, want kindSchema) []string {
	if have.KeepsAll {
		return nil
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(want.Properties)) {
		below := strings.TrimPrefix(path+"."+name, ".")
		if next, found := have.Properties[name]; found {
			out = append(out, missingIn(below, next, want.Properties[name])...)
		} else {
			out = append(out, below)
		}
	}
	if want.Items != nil && have.Items != nil {
		out = append(out, missingIn(path+"[]", *have.Items, *want.Items)...)
	}
	if w, h := want.values(), have.values(); w != nil && h != nil {
		out = append(out, missingIn(path+".*", *h, *w)...)
	}
	return out
}

// values is the schema of a map's values; nil if it is none.
func (s kindSchema) values() *kindSchema {
	var out kindSchema
	if len(s.Values) == 0 || json.Unmarshal(s.Values, &out) != nil {
		return nil // none, or a boolean
	}
	return &out
}

func firstOf(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}
