package pack

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var console = regexp.MustCompile("(?ms)^```console\n(.*?)^```")

// TestCommandsOfThePage runs what docs/packages.md shows, in order, in an empty directory.
func TestCommandsOfThePage(t *testing.T) {
	needNamespaces(t)
	page, err := os.ReadFile("../../../docs/packages.md")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	ran := 0
	for _, block := range console.FindAllStringSubmatch(string(page), -1) {
		printed, want := "", ""
		for line := range strings.Lines(block[1]) {
			shown, isCommand := strings.CutPrefix(line, "$ ")
			if !isCommand {
				want += line
				continue
			}
			if shown == "echo hello >settings\n" {
				write(t, ".", "settings", "hello\n")
				continue
			}
			args := strings.Fields(strings.TrimPrefix(shown, "sudo "))
			require.Equal(t, []string{"fleetwright", "package"}, args[:2])
			out, err := command(t, args[2:]...)
			require.NoError(t, err, out)
			printed += out
			ran++
		}
		require.Equal(t, want, printed, block[1])
	}
	require.Equal(t, 3, ran)
}
