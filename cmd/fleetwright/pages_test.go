package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var shown = regexp.MustCompile("(?m)(?:^\\$? ?(?:kubectl )?|`(?:kubectl )?)fleetwright ([a-z][^`\n|>]*)")

// TestCommandsOfAllPagesExist: each command that a page shows is one of the program, and so are its flags. That they work is
// tested with their subjects.
func TestCommandsOfAllPagesExist(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	checked := 0
	for _, page := range append(pages, "../../README.md", "../../fleet-example/README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range shown.FindAllStringSubmatch(string(text), -1) {
			requireCommand(t, page, strings.Fields(m[1]))
			checked++
		}
	}
	require.Greater(t, checked, 20)
}

func requireCommand(t *testing.T, page string, args []string) {
	t.Helper()
	root := newRoot(Streams{})
	command, _, err := root.Find(args)
	require.NoError(t, err, "%s shows %s", page, args)
	require.NotEqual(t, root, command, "%s shows %s", page, args)
	for _, word := range args {
		name, isFlag := strings.CutPrefix(strings.TrimRight(word, ".,:)"), "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "" && name != "help" {
			require.NotNil(t, command.Flags().Lookup(name), "%s shows the flag --%s of %s", page, name, command.Name())
		}
	}
}
