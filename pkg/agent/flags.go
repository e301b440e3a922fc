package agent

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
)

// flags remember on the host which steps of a version ran. Names are those of the NodeWright agent, so that a host that it
// worked on is not worked on twice.
type flags struct {
	root host.Root
	dir  string // <state>/flags/<package>/<version>
}

func (a *Agent) flags(c *Config) flags {
	return flags{a.Root, path.Join(a.Settings.StateDir, "flags", c.Name, c.Version)}
}

func (f flags) has(s Step) bool { return f.root.Exists(path.Join(f.dir, flagName(s))) }

func (f flags) set(s Step) error {
	if err := f.root.WriteFile(path.Join(f.dir, flagName(s)), nil, 0o644); err != nil {
		return fmt.Errorf("write flag of step %s: %w", s.Name, err)
	}
	return nil
}

// clear forgets the steps of every version: what another version did or undid since is not known, and after an uninstall nothing
// of any version is there.
func (f flags) clear() error {
	if err := f.root.RemoveAll(path.Dir(f.dir)); err != nil {
		return fmt.Errorf("clear flags: %w", err)
	}
	return nil
}

// maxFlag is the longest name that file systems take (255 bytes), with room for the suffix of a temporary file.
const maxFlag = 220

// flagName is <step path>_<base64 of "<arguments>_<return codes>">, both written as Python writes lists. A name that no file can
// have becomes a hash.
func flagName(s Step) string {
	marker := base64.StdEncoding.EncodeToString([]byte(pythonTexts(s.Arguments) + "_" + pythonNumbers(s.ReturnCodes)))
	name := s.Path + "_" + marker
	for _, part := range strings.Split(name, "/") {
		if len(part) > maxFlag {
			sum := sha256.Sum256([]byte(name))
			return "sha256-" + hex.EncodeToString(sum[:])
		}
	}
	return name
}

func pythonNumbers(codes []int) string {
	texts := make([]string, 0, len(codes))
	for _, c := range codes {
		texts = append(texts, strconv.Itoa(c))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

func pythonTexts(args []string) string {
	texts := make([]string, 0, len(args))
	for _, a := range args {
		texts = append(texts, pythonText(a))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// pythonText is repr() of a str: single quotes, unless the text has those and no double ones.
func pythonText(s string) string {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, c := range s {
		b.WriteString(pythonRune(c, quote))
	}
	b.WriteRune(quote)
	return b.String()
}

func pythonRune(c, quote rune) string {
	switch {
	case c == quote, c == '\\':
		return `\` + string(c)
	case c == '\n':
		return `\n`
	case c == '\r':
		return `\r`
	case c == '\t':
		return `\t`
	case c == ' ', unicode.IsPrint(c):
		return string(c)
	case c < 0x100:
		return fmt.Sprintf(`\x%02x`, c)
	case c < 0x10000:
		return fmt.Sprintf(`\u%04x`, c)
	}
	return fmt.Sprintf(`\U%08x`, c)
}
