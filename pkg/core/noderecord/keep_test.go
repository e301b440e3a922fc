package noderecord_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// Fields of a newer version survive what this one writes: of the record, and of packages that are still there.
func TestFieldReport_IN05_FieldsOfANewerVersionAreKept(t *testing.T) {
	newer := `{"nw":"a","node":"b","round":2,"batch":1,"order":0,"signature":{"by":"x"},"packages":{` +
		`"p":{"version":"1.0.0","verifiedAt":"today"},"gone":{"version":"1.0.0","verifiedAt":"never"}}}`
	r, found, err := noderecord.Decode(newer, "b")
	require.NoError(t, err)
	require.True(t, found)
	p := r.Packages["p"]
	p.Version = "2.0.0"
	r.Packages = map[string]noderecord.Package{"p": p}
	written := noderecord.EncodeOver(newer, r)
	require.JSONEq(t, `{"nw":"a","node":"b","round":2,"batch":1,"order":0,"signature":{"by":"x"},`+
		`"packages":{"p":{"version":"2.0.0","verifiedAt":"today"}}}`, written)
	again, _, err := noderecord.Decode(written, "b")
	require.NoError(t, err)
	require.Equal(t, noderecord.Encode(r), noderecord.Encode(again))
	require.Equal(t, noderecord.Encode(r), noderecord.EncodeOver(noderecord.Encode(r), r), "nothing to keep: the same text as ever")
	require.Equal(t, noderecord.Encode(r), noderecord.EncodeOver("not JSON", r))
}

// The records that released versions wrote are read, and written back as they were: no field was renamed or lost its meaning.
func TestRecordsOfReleasedVersionsAreRead(t *testing.T) {
	data, err := os.ReadFile("testdata/records-v0.1.json")
	require.NoError(t, err)
	var records map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &records))
	require.NotEmpty(t, records)
	for name, raw := range records {
		t.Run(name, func(t *testing.T) {
			r, found, err := noderecord.Decode(string(raw), "uid-n01")
			require.NoError(t, err)
			require.True(t, found)
			require.JSONEq(t, string(raw), noderecord.Encode(r))
		})
	}
}
