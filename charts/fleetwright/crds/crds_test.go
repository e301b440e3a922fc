package crds_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	"github.com/fleetwright/fleetwright/charts/fleetwright/crds"
)

// An API server that refuses a CRD (a schema that is not structural, a default that does not fit, a CEL rule over its cost
// budget) must be noticed here and not at install time.
func TestEveryDefinitionPassesTheAPIServersOwnValidation(t *testing.T) {
	all, err := crds.All()
	require.NoError(t, err)
	require.Len(t, all, 5)
	for _, crd := range all {
		t.Run(crd.Name, func(t *testing.T) {
			apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
			apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
			internal := &apiextensions.CustomResourceDefinition{}
			require.NoError(t, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil))
			internal.Status.StoredVersions = []string{"v1alpha1"}
			require.NoError(t, validation.ValidateCustomResourceDefinition(context.Background(), internal).ToAggregate())
		})
	}
}
