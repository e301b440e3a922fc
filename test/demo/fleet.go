package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/test/lab"
)

// overlayPath is the overlay that the demo's cluster follows.
const overlayPath = "overlays/us-east-1"

// tiers and how many nodes each has.
var tiers = []lab.Tier{{Name: "canary", Count: 2}, {Name: "serving", Count: 8}, {Name: "training", Count: 14}}

// fleetManifest is the one object that a person creates by hand: where the repository is, and what it may do here.
const fleetManifest = `apiVersion: fleetwright.dev/v1alpha1
kind: Fleet
metadata:
  name: ` + fleetName + `
  namespace: ` + lab.Namespace + `
spec:
  source:
    url: %s
    ref: {branch: main}
  path: ./` + overlayPath + `
  interval: 10s
  scope:
    nodeSelector: {matchLabels: {pool: gpu}}
  checks:
    provider: gitnotes
`

// fleet is the manifest for a repository.
func fleet(url string) (*unstructured.Unstructured, string, error) {
	manifest := fmt.Sprintf(fleetManifest, url)
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), object); err != nil {
		return nil, "", fmt.Errorf("read the Fleet's manifest: %w", err)
	}
	return object, manifest, nil
}
