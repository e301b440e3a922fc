package agent

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
)

func TestUnreadableHistoryIsPutAside(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		aside      bool
	}{
		"none yet":         {``, "unknown", true},
		"cut short":        {`{"current-version":"1.0`, "unknown", true},
		"another type":     {`{"current-version":1}`, "unknown", true},
		"a list":           {`[]`, "unknown", true},
		"a zero byte":      {`{"current-version":"1.0\u0000"}`, "unknown", true},
		"a line end":       {`{"current-version":"1.0\nX=1"}`, "unknown", true},
		"a bad entry":      {`{"current-version":"1.0","history":[{"version":"1\u0000","time":""}]}`, "unknown", true},
		"null":             {`null`, "unknown", false},
		"nothing said":     {`{}`, "unknown", false},
		"a version":        {`{"current-version":"1.0.0-rc.1+b","history":null}`, "1.0.0-rc.1+b", false},
		"uninstalled":      {`{"current-version":"uninstalled","history":[{"version":"uninstalled","time":"2026-01-01T00:00:00Z"}]}`, "uninstalled", false},
		"further fields":   {`{"current-version":"1","more":[1]}`, "1", false},
		"another spelling": {`{"current-version":"1","history":[{"version":"1","time":"2026-01-01 00:00:00.123456"}]}`, "1", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := historyFile{host.Root(t.TempDir()), "/history/p.json"}
			require.NoError(t, f.root.WriteFile(f.path, []byte(c.text), 0o644))
			got, err := f.current()
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.Equal(t, c.aside, f.root.Exists(f.path+".backup"))
			require.NotEqual(t, c.aside, f.root.Exists(f.path))
		})
	}
}

func TestHistoryIsBounded(t *testing.T) {
	f := historyFile{host.Root(t.TempDir()), "/history/p.json"}
	h := history{Current: "1.0.0"}
	for range maxHistory {
		h.Entries = append(h.Entries, historyEntry{"1.0.0", "2026-01-01T00:00:00Z"})
	}
	data, err := json.Marshal(h)
	require.NoError(t, err)
	require.NoError(t, f.root.WriteFile(f.path, data, 0o644))
	require.NoError(t, f.record("2.0.0", time.Unix(0, 0)))
	h, err = f.read()
	require.NoError(t, err)
	require.Len(t, h.Entries, maxHistory)
	require.Equal(t, historyEntry{"2.0.0", "1970-01-01T00:00:00Z"}, h.Entries[0])
}

// Whatever is in the file: what is believed can be given to a program, and what is written then is read again.
func FuzzHistory(f *testing.F) {
	for _, text := range []string{
		`{"current-version":"1.0.0","history":[{"version":"1.0.0","time":"2026-01-01T00:00:00Z"}]}`, `{"current-version":"1\u0000"}`,
		`{"current-version":"1\nX=1"}`, `null`, `[]`, `{"history":{}}`, "", "\xff", `{"current-version":"uninstalled","history":null}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before, ok := parseHistory(data)
		if !ok {
			require.Empty(t, before)
			return
		}
		require.LessOrEqual(t, len(before.Current), maxVersion)
		require.False(t, strings.ContainsAny(before.Current, "\x00\r\n"), before.Current)
		written, err := before.with("9.9.9", time.Unix(0, 0))
		require.NoError(t, err)
		after, ok := parseHistory(written)
		require.True(t, ok, "%s", written)
		require.Equal(t, "9.9.9", after.Current)
		require.Len(t, after.Entries, min(len(before.Entries)+1, maxHistory))
	})
}
