//go:build !fuzz

// The schemas bring Kubernetes, which make fuzz would have to compile once more.

package agent

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/schema"
)

// Editors know less than the agent, and never complain about what the agent accepts.
func TestSchemaOfConfigAcceptsWhatTheAgentAccepts(t *testing.T) {
	data, err := schema.FS.ReadFile(schema.PackageConfigFile)
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource(schema.BaseID+schema.PackageConfigFile, bytes.NewReader(data)))
	compiled, err := compiler.Compile(schema.BaseID + schema.PackageConfigFile)
	require.NoError(t, err)

	refused := 0
	for name, c := range badConfigs() {
		var doc any
		if json.Unmarshal([]byte(c.json), &doc) != nil {
			continue
		}
		if compiled.Validate(doc) != nil {
			refused++
		} else {
			t.Logf("only the agent refuses: %s", name)
		}
	}
	require.GreaterOrEqual(t, refused, 15, "editors mark most mistakes")
	for _, good := range append(goodConfigs, fullConfig) {
		_, err := ParseConfig([]byte(good))
		require.NoError(t, err)
		var doc any
		require.NoError(t, json.Unmarshal([]byte(good), &doc))
		require.NoError(t, compiled.Validate(doc), good)
	}
}

// goodConfigs are odd and allowed.
var goodConfigs = []string{
	configJSON(`"apply":[` + goodStep + `],"apply-check":[` + goodStep + `],"config":[]`),
	`{"schema_version":"v1","package_name":"nvidia_tuned","package_version":"0.9.0-rc.1+build.7","root_dir":"/","more":1,
	"expected_config_files":[],"modes":{"uninstall":[{"name":"a.b-c_d","path":"x/y.sh","arguments":["env:A",""],"returncodes":[-1,0,3],
	"on_host":false,"idempotence":true,"upgrade_step":false,"env":null,"odd":{}}],"uninstall-check":[` + goodStep + `]}}`,
}
