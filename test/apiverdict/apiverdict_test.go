package apiverdict_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/charts/fleetwright/crds"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/schema"
	"github.com/fleetwright/fleetwright/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{}) }

type verdict struct {
	Name     string   `json:"name"`
	Manifest string   `json:"manifest"`
	Findings []string `json:"findings"`
}

func cases(t *testing.T) []verdict {
	t.Helper()
	data, err := os.ReadFile("../../pkg/adapter/manifest/testdata/verdicts.yaml")
	require.NoError(t, err)
	var all []verdict
	require.NoError(t, yaml.UnmarshalStrict(data, &all))
	require.NotEmpty(t, all)
	return all
}

// head is what the address of an object needs.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

func TestTheAPIServerGivesTheSameVerdict(t *testing.T) {
	config := cluster.Shared(t).Config()
	install(t, config)
	validator, err := manifest.New()
	require.NoError(t, err)
	server := client(t, config)
	for _, tc := range cases(t) {
		t.Run(tc.Name, func(t *testing.T) {
			data, err := yaml.YAMLToJSONStrict([]byte(tc.Manifest))
			require.NoError(t, err)
			var h head
			require.NoError(t, json.Unmarshal(data, &h))

			offline := check(validator, h, data)
			refusal := dryRunCreate(t, server, h, data)
			require.Equal(t, len(offline) == 0, refusal == "", "offline:\n%s\nserver:\n%s", strings.Join(offline, "\n"), refusal)
			if !jsonSchemaAccepts(t, h, data) {
				require.NotEmpty(t, refusal, "the JSON Schema must not refuse what the API server accepts")
			}
		})
	}
}

func check(v *manifest.Validator, h head, data []byte) []string {
	object := manifest.Object{APIVersion: h.APIVersion, Kind: h.Kind, Name: h.Metadata.Name, Namespace: h.Metadata.Namespace, JSON: data}
	var errors []string
	for _, f := range v.Check(object, nil) {
		errors = append(errors, f.String())
	}
	return errors
}

var resources = map[string]string{"NodeWright": "nodewrights", "DeploymentPolicy": "deploymentpolicies", "Package": "packages", "Fleet": "fleets"}

// dryRunCreate returns why the server refuses, or nothing.
func dryRunCreate(t *testing.T, server *rest.RESTClient, h head, data []byte) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	path := []string{"/apis", h.APIVersion, resources[h.Kind]}
	if h.Kind == fleetv1.KindFleet {
		path = []string{"/apis", h.APIVersion, "namespaces", "default", resources[h.Kind]}
	}
	err := server.Post().AbsPath(path...).
		Param("dryRun", "All").Param("fieldValidation", "Strict").
		SetHeader("Content-Type", "application/json").Body(data).Do(ctx).Error()
	if err == nil {
		return ""
	}
	require.True(t, apierrors.IsInvalid(err) || apierrors.IsBadRequest(err), "not a verdict: %v", err)
	return err.Error()
}

func jsonSchemaAccepts(t *testing.T, h head, data []byte) bool {
	t.Helper()
	file := schema.FileName(h.Kind)
	text, err := schema.FS.ReadFile(file)
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource(schema.BaseID+file, bytes.NewReader(text)))
	compiled, err := compiler.Compile(schema.BaseID + file)
	require.NoError(t, err)
	var value any
	require.NoError(t, json.Unmarshal(data, &value))
	return compiled.Validate(value) == nil
}

func client(t *testing.T, config *rest.Config) *rest.RESTClient {
	t.Helper()
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.UnversionedRESTClientFor(config)
	require.NoError(t, err)
	return c
}

func install(t *testing.T, config *rest.Config) {
	t.Helper()
	clients, err := apiextensions.NewForConfig(config)
	require.NoError(t, err)
	all, err := crds.All()
	require.NoError(t, err)
	for _, crd := range all {
		_, err := clients.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return established(t, clients, crd.Name) }, time.Minute, 100*time.Millisecond)
	}
}

func established(t *testing.T, clients *apiextensions.Clientset, name string) bool {
	crd, err := clients.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			return true
		}
	}
	return false
}
