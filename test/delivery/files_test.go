package delivery

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
)

type runtimeObject = runtime.Object

const kustomization = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - package.yaml
  - policy.yaml
  - nodewright.yaml
`

const packageFile = `apiVersion: fleetwright.dev/v1alpha1
kind: Package
metadata:
  name: tuning
spec:
  image: ghcr.io/acme/tuning
  version: 1.0.0
  configMap:
    sysctl.conf: |
      vm.max_map_count = 262144
`

const policyFile = `apiVersion: nodewright.nvidia.com/v1alpha1
kind: DeploymentPolicy
metadata:
  name: careful
spec:
  default:
    budget:
      count: 2
    strategy:
      fixed:
        initialBatch: 2
`

const nodeWrightFile = `apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: gpu
spec:
  deploymentPolicy: careful
  packages:
    tuning:
      packageRef:
        name: tuning
`

// good is a repository that delivers three objects from the directory a.
func good(changes ...map[string]string) map[string]string {
	files := map[string]string{
		"a/kustomization.yaml": kustomization, "a/package.yaml": packageFile, "a/policy.yaml": policyFile,
		"a/nodewright.yaml": nodeWrightFile,
	}
	for _, c := range changes {
		maps.Copy(files, c)
	}
	return files
}
