package cluster

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// TestFieldReport_IN05_JobsOfReleasedVersionsAreFound: an execution that an earlier version began goes on under this one: its labels
// say whose it is, and its name is the one that this version would give it, so that it is not begun twice. The recorded files
// are never written anew.
func TestFieldReport_IN05_JobsOfReleasedVersionsAreFound(t *testing.T) {
	for file, spec := range map[string]plan.ExecutionSpec{"install": installSpec(), "interrupt": interruptSpec()} {
		data, err := os.ReadFile("testdata/job-" + file + "-v0.1.yaml")
		require.NoError(t, err)
		job := &batchv1.Job{}
		require.NoError(t, yaml.UnmarshalStrict(data, job))
		e := Execution(job, nil)
		require.Equal(t, spec.ExecutionKey, e.ExecutionKey)
		require.Equal(t, spec.Node, e.Node)
		require.Equal(t, spec.Compartment, e.Compartment)
		require.Equal(t, spec.Batch, e.Batch)
		require.Equal(t, spec.Order, *e.Order)
		require.Equal(t, BuildJob(spec, testNode(), testSettings()).Name, job.Name)
	}
}
