package manifest

import (
	"slices"
	"strconv"
	"strings"
)

// path is a place in a document: field names, map keys and list indexes.
type path []string

// child returns a new path; the receiver is never shared.
func (p path) child(tokens ...string) path { return append(slices.Clone(p), tokens...) }

// pointer is the RFC 6901 JSON pointer.
func (p path) pointer() string {
	var b strings.Builder
	for _, token := range p {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
	}
	return b.String()
}

// field is the path as a person writes it: spec.compartments[2].budget. A key that would not read well is quoted:
// spec.packages.tuning.configMap["sysctl.conf"].
func (p path) field() string {
	var b strings.Builder
	for i, token := range p {
		switch {
		case isIndex(token) && i > 0:
			b.WriteString("[" + token + "]")
		case strings.ContainsAny(token, "./[] ") || token == "":
			b.WriteString("[" + strconv.Quote(token) + "]")
		case i == 0:
			b.WriteString(token)
		default:
			b.WriteString("." + token)
		}
	}
	return b.String()
}

// covers says that other is p itself or inside of it.
func (p path) covers(other path) bool { return len(p) <= len(other) && slices.Equal(p, other[:len(p)]) }

func isIndex(token string) bool {
	_, err := strconv.ParseUint(token, 10, 31)
	return err == nil
}

// parseField turns a field path of the API server's machinery into a path. Its keys may contain the separators
// themselves (`spec.packages.tuning.configMap.sysctl.conf`), so the document decides: the longest key that exists wins.
func parseField(doc any, field string) path {
	var p path
	for field != "" {
		token, rest := nextToken(doc, field)
		p = append(p, token)
		doc, field = step(doc, token), rest
	}
	return p
}

func nextToken(doc any, field string) (token, rest string) {
	field = strings.TrimPrefix(field, ".")
	if strings.HasPrefix(field, "[") {
		if end := strings.Index(field, "]"); end > 0 {
			return strings.Trim(field[1:end], `"`), field[end+1:]
		}
	}
	if key, ok := longestKey(doc, field); ok {
		return key, field[len(key):]
	}
	if end := strings.IndexAny(field, ".["); end > 0 {
		return field[:end], field[end:]
	}
	return field, ""
}

func longestKey(doc any, field string) (string, bool) {
	object, _ := doc.(map[string]any)
	best, found := "", false
	for key := range object {
		rest, ok := strings.CutPrefix(field, key)
		if ok && len(key) > len(best) && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			best, found = key, true
		}
	}
	return best, found
}

// step goes one token down; nil where there is nothing.
func step(doc any, token string) any {
	switch d := doc.(type) {
	case map[string]any:
		return d[token]
	case []any:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(d) {
			return d[i]
		}
	}
	return nil
}

func (p path) in(doc any) any {
	for _, token := range p {
		doc = step(doc, token)
	}
	return doc
}
