// Package crds embeds the generated CustomResourceDefinitions, so that the chart, the offline validation and the tests use
// the same bytes. It decides nothing.
package crds

import (
	"embed"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// FS holds one YAML file per CustomResourceDefinition.
//
//go:embed *.yaml
var FS embed.FS

// All returns every CustomResourceDefinition, sorted by file name. An error means that the program was built from broken
// files.
func All() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(FS, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, name := range names {
		crd, err := read(name)
		if err != nil {
			return nil, err
		}
		all = append(all, crd)
	}
	return all, nil
}

func read(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := FS.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		return nil, fmt.Errorf("decode CustomResourceDefinition %s: %w", name, err)
	}
	return crd, nil
}
