package rollout

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

var (
	shellBlock  = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")
	yamlBlock   = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")
	inlineShell = regexp.MustCompile("`(fleetwright [a-z-]+ [^`\n]*)`")
	verbRow     = regexp.MustCompile("(?m)^\\| (`[a-z-]+`(?:, `[a-z-]+`)*) \\| ([A-Za-z, ]+) \\| (.*?) \\|")
	backquoted  = regexp.MustCompile("`([^`]+)`")
)

// page reads a page of the documentation, with the names of this world in it.
func (w *world) page(name string, nodes []string) string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join("../../docs", name))
	require.NoError(w.t, err)
	return strings.NewReplacer("gpu-17", nodes[0], "gpu-18", nodes[1], "node/NAME", "node/"+nodes[0],
		"nodewright/NAME", "nodewright/"+adopted, "--nodewright NAME", "--nodewright "+adopted).Replace(string(data))
}

// shell runs a line as the page's reader would, in a directory of its own with the program in the path.
func (c commandLine) shell(dir, line string) string {
	c.t.Helper()
	out, err := c.output([]string{
		"KUBECONFIG=" + c.kubeconfig, "PATH=" + filepath.Dir(c.binary) + string(os.PathListSeparator) + os.Getenv("PATH"), "DIR=" + dir,
	}, "sh", "-ec", `cd "$DIR"; `+line)
	require.NoError(c.t, err, "%s: %s", line, out)
	return out
}

// TestCommandsOfThePages takes a cluster over with the commands of docs/adopt.md and then asks for everything that docs/verbs.md
// shows: each command, each row of its table, and the manifest.
func TestCommandsOfThePages(t *testing.T) {
	w := newWorld(t)
	nodes := []string{w.recordedNode("v0.15"), w.recordedNode("v0.20")}
	w.legacyCRD()
	w.skyhook()
	c := w.newCommandLine().as(w, operator, "system:masters")
	w.takeover() // once this works nothing of an earlier test is in the way

	dir, page := t.TempDir(), w.page("adopt.md", nodes)
	blocks := shellBlock.FindAllStringSubmatch(page, -1)
	require.Len(t, blocks, 1)
	lines := strings.Split(strings.TrimSpace(blocks[0][1]), "\n")
	require.Len(t, lines, 2)
	c.shell(dir, lines[0])
	w.createFrom(filepath.Join(dir, "nodewrights.yaml"))
	c.shell(dir, lines[1])
	w.start()
	w.awaitComplete(adopted)
	w.requireInline(c, page, 3)
	w.awaitComplete(adopted)

	page = w.page("verbs.md", nodes)
	for _, line := range strings.Split(strings.TrimSpace(shellBlock.FindStringSubmatch(page)[1]), "\n") {
		c.shell(dir, line)
	}
	w.requireInline(c, page, 1)
	w.edit(adopted, func(nw *nwv1.NodeWright) { nw.Spec.RuntimeRequired = true }) // or there is no gate to speak of
	w.requireRows(c, page, nodes[1])
	w.requireWish(page)
}

// createFrom creates the NodeWright of a file.
func (w *world) createFrom(file string) {
	w.t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(w.t, err)
	nw := &nwv1.NodeWright{}
	require.NoError(w.t, yaml.UnmarshalStrict(data, nw))
	require.Equal(w.t, adopted, nw.Name)
	w.create(nw)
}

// requireInline runs the commands that stand in the text.
func (w *world) requireInline(c commandLine, page string, least int) {
	w.t.Helper()
	found := inlineShell.FindAllStringSubmatch(page, -1)
	require.GreaterOrEqual(w.t, len(found), least)
	for _, m := range found {
		c.shell(w.t.TempDir(), m[1])
	}
}

// requireRows asks for each command of the table on each object that its row names: the patch sets what the row says.
func (w *world) requireRows(c commandLine, page, node string) {
	w.t.Helper()
	target := map[string]string{"NodeWright": "nodewright/" + adopted, "node": "node/" + node}
	rows := verbRow.FindAllStringSubmatch(page, -1)
	require.Len(w.t, rows, 9)
	for _, row := range rows {
		for _, name := range backquoted.FindAllStringSubmatch(row[1], -1) {
			for _, on := range strings.Split(row[2], ", ") {
				require.Contains(w.t, target, on)
				said := c.must(name[1], target[on], "--dry-run")
				if strings.Contains(said, " stays as it is\n") {
					continue // nothing to enable, to resume or to unignore
				}
				key, _, _ := strings.Cut(backquoted.FindStringSubmatch(row[3])[1], ":")
				require.Contains(w.t, said, `"`+key+`":`, row[0])
			}
		}
	}
}

// requireWish puts the annotation of the page's manifest on the NodeWright: it is met.
func (w *world) requireWish(page string) {
	w.t.Helper()
	shown := &nwv1.NodeWright{}
	require.NoError(w.t, yaml.UnmarshalStrict([]byte(yamlBlock.FindStringSubmatch(page)[1]), shown))
	require.Equal(w.t, adopted, shown.Name)
	require.Len(w.t, shown.Annotations, 1)
	for key, value := range shown.Annotations {
		token, _, _ := strings.Cut(value, " ")
		w.edit(adopted, annotated(key, value))
		w.awaitHandled(adopted, strings.TrimPrefix(key, "fleetwright.dev/"), token)
	}
}
