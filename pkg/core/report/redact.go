package report

import (
	"regexp"
	"strings"
)

// Redact takes the user part and the query out of every URL in a text: people put passwords and tokens there. Adapters never
// put a credential into an error; this is the second wall, so it rather takes too much than too little.
func Redact(text string) string { return urls.ReplaceAllStringFunc(text, redactURL) }

var (
	urls = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>` + "`" + `]+`)
	port = regexp.MustCompile(`^[0-9]*[:;,.)]*$`)
)

func redactURL(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	authority, _, _ := strings.Cut(rest, "/")
	_, afterColon, hasColon := strings.Cut(authority, ":")
	// A password may hold a slash or an at sign itself, which leaves something that is neither a host nor a port.
	if at := strings.LastIndex(rest, "@"); at >= 0 && (strings.Contains(authority, "@") || hasColon && !port.MatchString(afterColon)) {
		rest = rest[at+1:]
	}
	if before, query, found := strings.Cut(rest, "?"); found {
		end := len(strings.TrimRight(query, ":;,.)"))
		rest = before + query[end:] // the sentence goes on after the URL
	}
	return scheme + "://" + rest
}
