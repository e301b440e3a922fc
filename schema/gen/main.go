package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// writtenByPeople names the kinds that get a JSON Schema, by the file of their CRD.
var writtenByPeople = map[string]string{
	"nodewright.nvidia.com_nodewrights.yaml":        "nodewright.json",
	"nodewright.nvidia.com_deploymentpolicies.yaml": "deploymentpolicy.json",
	"fleetwright.dev_packages.yaml":                 "package.json",
	"fleetwright.dev_fleets.yaml":                   "fleet.json",
}

func main() {
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "schema/gen:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	files, err := filepath.Glob(filepath.Join(root, "charts", "fleetwright", "crds", "*.yaml"))
	if err != nil {
		return fmt.Errorf("list CRDs: %w", err)
	}
	for _, file := range files {
		if err := generate(file, filepath.Join(root, "schema")); err != nil {
			return fmt.Errorf("generate from %s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

func generate(crdFile, schemaDir string) error {
	data, err := os.ReadFile(crdFile)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	tightened, err := tightenYAML(data)
	if err != nil {
		return err
	}
	if err := os.WriteFile(crdFile, tightened, 0o644); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	target, ok := writtenByPeople[filepath.Base(crdFile)]
	if !ok {
		return nil
	}
	doc, err := jsonSchema(tightened, target)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(schemaDir, target), doc, 0o644)
}

func tightenYAML(data []byte) ([]byte, error) {
	var crd map[string]any
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	tighten(crd)
	out, err := yaml.Marshal(crd)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return append([]byte("---\n"), out...), nil
}

func jsonSchema(data []byte, file string) ([]byte, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(convertCRD(crd, file)); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return out.Bytes(), nil
}
