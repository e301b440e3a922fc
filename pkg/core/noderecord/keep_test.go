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
	require.JSONEq(t, `{"schema":1,"nw":"a","node":"b","round":2,"batch":1,"order":0,"signature":{"by":"x"},`+
		`"packages":{"p":{"version":"2.0.0","verifiedAt":"today"}}}`, written)
	again, _, err := noderecord.Decode(written, "b")
	require.NoError(t, err)
	require.Equal(t, noderecord.Encode(r), noderecord.Encode(again))
	require.Equal(t, noderecord.Encode(r), noderecord.EncodeOver(noderecord.Encode(r), r), "nothing to keep: the same text as ever")
	require.Equal(t, noderecord.Encode(r), noderecord.EncodeOver("not JSON", r))
}

// The records that released versions wrote are read, and written back as they were, now with a number: no field was renamed or
// lost its meaning.
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
			var written map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(noderecord.Encode(r)), &written))
			require.Equal(t, "1", string(written["schema"]))
			delete(written, "schema")
			again, err := json.Marshal(written)
			require.NoError(t, err)
			require.JSONEq(t, string(raw), string(again))
		})
	}
}

// TestFieldReport_IN05_ARecordOfAnUnknownSchemaIsNotGuessedAt: a version reads its own number and records without one; a higher
// number is an error that says what to do, also where the fields have other kinds of values by then.
func TestFieldReport_IN05_ARecordOfAnUnknownSchemaIsNotGuessedAt(t *testing.T) {
	const newer = "read record: the record has schema 2, of a newer version of Fleetwright; this one reads up to 1: upgrade the reconciler again"
	for name, c := range map[string]struct {
		value, err string
		found      bool
	}{
		"none":                          {value: `{"nw":"a","node":"b","round":3,"batch":0,"order":0}`, found: true},
		"its own":                       {value: `{"schema":1,"nw":"a","node":"b","round":3,"batch":0,"order":0}`, found: true},
		"a higher one":                  {value: `{"schema":2,"nw":"a","node":"b","round":3,"batch":0,"order":0}`, err: newer},
		"a higher one, other values":    {value: `{"schema":2,"nw":"a","node":"b","round":{"of":3},"packages":[]}`, err: newer},
		"a higher one, of another node": {value: `{"schema":2,"nw":"a","node":"earlier","round":3}`},
		"none that there is":            {value: `{"schema":-1,"nw":"a","node":"b"}`, err: "read record: schema is -1; it counts from 0"},
	} {
		t.Run(name, func(t *testing.T) {
			r, found, err := noderecord.Decode(c.value, "b")
			var reader noderecord.Reader
			for range 2 {
				read, readFound, readErr := reader.Read(c.value, "b")
				read.Shared = 0
				require.Equal(t, r, read)
				require.Equal(t, found, readFound)
				require.Equal(t, err, readErr)
			}
			require.Equal(t, c.found, found)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			if found {
				require.EqualValues(t, 3, r.Round)
			}
		})
	}
}
