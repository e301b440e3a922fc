package review

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Comment is one that we wrote.
type Comment struct {
	ID, Body string
}

// Mark tells our comments apart. It stands in the last line of each, in a form that no forge shows: a link that nothing links to.
type Mark struct {
	// Context of the Fleet.
	Context string
	// Part of a plan in several comments, from 1.
	Part int
	// Commit that the comment is about, and what was decided on it.
	Commit    string
	Admission Admission
	// Digest of what the comment says, apart from what changes by the clock alone.
	Digest string
}

const (
	markBegin = "\n[fleetwright]: # \"plan "
	markEnd   = "\""
)

// String is the last line of a comment, with the line end before it.
func (m Mark) String() string {
	return "\n" + markBegin + strings.Join([]string{escape(m.Context), strconv.Itoa(m.Part), m.Commit, string(m.Admission), m.Digest}, " ") + markEnd + "\n"
}

// MarkOf reads the mark of a comment. Text of others stands before it, and cannot pretend to be one.
func MarkOf(body string) (Mark, bool) {
	body = strings.TrimRight(strings.ReplaceAll(body, "\r\n", "\n"), "\n ")
	at := strings.LastIndex(body, "\n")
	if at < 0 {
		return Mark{}, false
	}
	text, ok := strings.CutPrefix(body[at:], markBegin)
	text, closed := strings.CutSuffix(text, markEnd)
	words := strings.Split(text, " ")
	if !ok || !closed || len(words) != 5 {
		return Mark{}, false
	}
	part, err := strconv.Atoi(words[1])
	if err != nil {
		return Mark{}, false
	}
	return Mark{Context: unescape(words[0]), Part: part, Commit: words[2], Admission: Admission(words[3]), Digest: words[4]}, true
}

// escape keeps what means nothing in a title: letters, digits, and a few signs.
func escape(s string) string {
	var out strings.Builder
	for _, b := range []byte(s) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("-_./", b) >= 0 {
			out.WriteByte(b)
			continue
		}
		fmt.Fprintf(&out, "%%%02X", b)
	}
	return out.String()
}

func unescape(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if b, err := hex.DecodeString(s[i+1 : i+3]); err == nil {
				out.Write(b)
				i += 2
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// Digest is a short hash of a text.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Edits are what makes the comments of a pull request as they are wanted.
type Edits struct {
	// Add are the bodies of new comments, Edit those that get another body, Delete those that go.
	Add    []string
	Edit   []Comment
	Delete []Comment
}

// None says that there is nothing to do.
func (e Edits) None() bool { return len(e.Add)+len(e.Edit)+len(e.Delete) == 0 }

// Sync compares our comments, oldest first, with the wanted parts. Comments of other contexts are left alone. Of two that are the same
// part (a process died in between, say) the newer one stays; parts that are not wanted any more go.
func Sync(own []Comment, context string, wanted []string) Edits {
	var out Edits
	have := map[int]Comment{}
	for _, c := range own {
		mark, ours := MarkOf(c.Body)
		if !ours || mark.Context != context {
			continue
		}
		if older, twice := have[mark.Part]; twice {
			out.Delete = append(out.Delete, older)
		}
		have[mark.Part] = c
		if mark.Part < 1 || mark.Part > len(wanted) {
			out.Delete = append(out.Delete, c)
			delete(have, mark.Part)
		}
	}
	for i, body := range wanted {
		c, there := have[i+1]
		is, _ := MarkOf(c.Body)
		shall, _ := MarkOf(body)
		switch {
		case !there:
			out.Add = append(out.Add, body)
		case is != shall:
			out.Edit = append(out.Edit, Comment{ID: c.ID, Body: body})
		}
	}
	return out
}

// Seen is what was decided on a commit, by the comments of a context.
func Seen(own []Comment, context, commit string) Admission {
	for _, c := range own {
		if mark, ours := MarkOf(c.Body); ours && mark.Context == context && mark.Commit == commit {
			return mark.Admission
		}
	}
	return ""
}
