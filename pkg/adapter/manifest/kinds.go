package manifest

import (
	"bytes"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	gvkschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/fleetwright/fleetwright/charts/fleetwright/crds"
	"github.com/fleetwright/fleetwright/schema"
)

// Validator holds the compiled schemas. It is expensive to make and safe for concurrent use.
type Validator struct {
	kinds map[gvkschema.GroupVersionKind]*kind
}

// kind is everything that is known about one kind.
type kind struct {
	namespaced bool
	words      map[string]any // the JSON Schema as data, for wording
	json       *jsonschema.Schema
	structural *structuralschema.Structural
	openapi    validation.SchemaValidator
	cel        *cel.Validator
}

// New compiles the embedded schemas. An error means that the program was built from broken files.
func New() (*Validator, error) {
	all, err := crds.All()
	if err != nil {
		return nil, err
	}
	v := &Validator{kinds: map[gvkschema.GroupVersionKind]*kind{}}
	for _, gvk := range schema.Kinds() {
		for _, crd := range all {
			if crd.Spec.Group != gvk.Group || crd.Spec.Names.Kind != gvk.Kind {
				continue
			}
			if v.kinds[gvk], err = newKind(gvk, crd); err != nil {
				return nil, fmt.Errorf("compile schemas of %s: %w", gvk.Kind, err)
			}
		}
	}
	return v, nil
}

func newKind(gvk gvkschema.GroupVersionKind, crd *apiextensionsv1.CustomResourceDefinition) (*kind, error) {
	k := &kind{namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped}
	if err := k.compileJSONSchema(gvk); err != nil {
		return nil, err
	}
	return k, k.compileCRD(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
}

func (k *kind) compileJSONSchema(gvk gvkschema.GroupVersionKind) error {
	data, err := schema.For(gvk)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &k.words); err != nil {
		return fmt.Errorf("decode JSON Schema: %w", err)
	}
	id := schema.BaseID + schema.FileName(gvk.Kind)
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	if err := compiler.AddResource(id, bytes.NewReader(data)); err != nil {
		return fmt.Errorf("add JSON Schema: %w", err)
	}
	k.json, err = compiler.Compile(id)
	return err
}

// compileCRD prepares what an API server does with a custom resource, by its own code.
func (k *kind) compileCRD(props *apiextensionsv1.JSONSchemaProps) error {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
		return fmt.Errorf("convert CRD schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return fmt.Errorf("read structural schema: %w", err)
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return fmt.Errorf("prune defaults: %w", err)
	}
	k.structural = structural
	k.cel = cel.NewValidator(structural, true, celconfig.PerCallLimit)
	k.openapi, _, err = validation.NewSchemaValidator(internal)
	return err
}
