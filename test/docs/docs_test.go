package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
)

const root = "../.."

// pages are all Markdown files of the repository, by their path from its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		out[name] = string(data)
		return err
	}))
	require.Contains(t, out, "README.md")
	return out
}

var fenced = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```")

// blocks returns the fenced blocks of a language.
func blocks(page, language string) []string {
	var out []string
	for _, m := range fenced.FindAllStringSubmatch(page, -1) {
		if m[1] == language {
			out = append(out, m[2])
		}
	}
	return out
}

func TestManifestsOfThePagesAreAccepted(t *testing.T) {
	validator, err := manifest.New()
	require.NoError(t, err)
	checked := 0
	for name, page := range pages(t) {
		for _, block := range blocks(page, "yaml") {
			for _, document := range strings.Split(block, "\n---\n") {
				object, ours := read(t, name, document)
				if !ours {
					continue
				}
				checked++
				for _, f := range validator.Check(object, nil) {
					t.Errorf("%s: %s", name, f)
				}
			}
		}
	}
	require.GreaterOrEqual(t, checked, 2, "the README alone shows a NodeWright and a Fleet")
}

// read turns a document into an object, if it is a whole one of ours.
func read(t *testing.T, page, document string) (manifest.Object, bool) {
	t.Helper()
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct{ Name, Namespace string }
	}
	data, err := yaml.YAMLToJSON([]byte(document))
	require.NoError(t, err, page)
	if yaml.Unmarshal(data, &head) != nil || head.Kind == "" || !oursRegexp.MatchString(head.APIVersion) {
		return manifest.Object{}, false
	}
	return manifest.Object{
		APIVersion: head.APIVersion, Kind: head.Kind, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name,
		JSON: data, File: page,
	}, true
}

var oursRegexp = regexp.MustCompile(`^(nodewright\.nvidia\.com|fleetwright\.dev)/`)

func TestMakeTargetsOfThePagesExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	used := regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z0-9-]*)")
	for name, page := range pages(t) {
		for _, m := range used.FindAllStringSubmatch(page, -1) {
			require.Regexp(t, "(?m)^"+m[1]+":", string(makefile), "%s names the target %s", name, m[1])
		}
	}
}

func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)`)
	code := regexp.MustCompile("`[^`\n]*`")
	for name, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(fenced.ReplaceAllString(page, ""), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			_, err := os.Stat(filepath.Join(root, filepath.Dir(name), m[1]))
			require.NoError(t, err, "%s links to %s", name, m[1])
		}
	}
}
