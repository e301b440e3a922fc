package chart

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/charts"
)

// ReleaseName is the name under which Render and Apply install the chart.
const ReleaseName = "fleetwright"

// Render returns the objects of the chart's templates in the order in which Helm installs them, without the CRDs. values
// override values.yaml and are checked against values.schema.json. With a nil cfg it renders as `helm template` does, and
// what the chart looks up in a cluster is not found.
func Render(ctx context.Context, cfg *rest.Config, namespace string, values map[string]any) ([]*unstructured.Unstructured, error) {
	chart, err := load()
	if err != nil {
		return nil, err
	}
	files, err := execute(ctx, cfg, chart, releaseValues{namespace: namespace, values: values})
	if err != nil {
		return nil, err
	}
	for name := range files {
		if strings.HasSuffix(name, "NOTES.txt") || strings.HasPrefix(name[strings.LastIndex(name, "/")+1:], "_") {
			delete(files, name)
		}
	}
	_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, fmt.Errorf("sort manifests: %w", err)
	}
	objects := make([]*unstructured.Unstructured, 0, len(manifests))
	for _, m := range manifests {
		object, err := decode(m.Content)
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", m.Name, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// Notes returns what Helm prints after the installation.
func Notes(ctx context.Context, cfg *rest.Config, namespace string, values map[string]any) (string, error) {
	chart, err := load()
	if err != nil {
		return "", err
	}
	files, err := execute(ctx, cfg, chart, releaseValues{namespace: namespace, values: values})
	return files[chart.Name()+"/templates/NOTES.txt"], err
}

// CRDs returns the CustomResourceDefinitions of the chart.
func CRDs() ([]*unstructured.Unstructured, error) {
	chart, err := load()
	if err != nil {
		return nil, err
	}
	var crds []*unstructured.Unstructured
	for _, file := range chart.CRDObjects() {
		for _, document := range strings.Split(string(file.File.Data), "\n---") {
			object, err := decode(document)
			if err != nil {
				return nil, fmt.Errorf("decode %s: %w", file.Name, err)
			}
			if len(object.Object) > 0 {
				crds = append(crds, object)
			}
		}
	}
	return crds, nil
}

// load reads the chart that is embedded in this build.
func load() (*chartv2.Chart, error) {
	var files []*archive.BufferedFile
	root := "fleetwright"
	err := fs.WalkDir(charts.Fleetwright, root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".go") {
			return err
		}
		data, err := charts.Fleetwright.ReadFile(path)
		if err != nil {
			return err
		}
		files = append(files, &archive.BufferedFile{Name: strings.TrimPrefix(path, root+"/"), Data: data})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read chart: %w", err)
	}
	chart, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("load chart: %w", err)
	}
	return chart, nil
}

// releaseValues is where a release goes and what overrides the chart's values.
type releaseValues struct {
	namespace string
	values    map[string]any
}

// execute renders every template of the chart; the keys are the templates' paths.
func execute(ctx context.Context, cfg *rest.Config, chart *chartv2.Chart, r releaseValues) (map[string]string, error) {
	capabilities, err := capabilitiesOf(cfg)
	if err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: ReleaseName, Namespace: r.namespace, Revision: 1, IsInstall: true}
	values, err := util.ToRenderValues(chart, normalize(r.values), options, capabilities)
	if err != nil {
		return nil, fmt.Errorf("check values: %w", err)
	}
	renderer := engine.Engine{}
	if cfg != nil {
		renderer = engine.New(cfg)
	}
	renderer.Strict = true
	files, err := renderer.RenderWithContext(ctx, chart, values)
	if err != nil {
		return nil, fmt.Errorf("render chart: %w", err)
	}
	return files, nil
}

// capabilitiesOf asks the server for its version; without a server it takes Helm's default.
func capabilitiesOf(cfg *rest.Config) (*common.Capabilities, error) {
	capabilities := common.DefaultCapabilities.Copy()
	if cfg == nil {
		return capabilities, nil
	}
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}
	info, err := client.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("read server version: %w", err)
	}
	version, err := common.ParseKubeVersion(info.GitVersion)
	if err != nil {
		return nil, fmt.Errorf("parse server version %q: %w", info.GitVersion, err)
	}
	capabilities.KubeVersion = *version
	return capabilities, nil
}

// normalize turns nil into an empty map, which Helm merges with the defaults.
func normalize(values map[string]any) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	return values
}

func decode(document string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
		return nil, err
	}
	return object, nil
}
