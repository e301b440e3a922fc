package desired

import (
	"strings"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Gap is a field that the API has and this version does not act on. A manifest that sets it is refused: ignoring a
// maintenance window, say, would disturb nodes at the wrong time.
type Gap struct {
	// Path of the field, from `spec`.
	Path []string
	// Message is one sentence.
	Message string
}

// Field is the path with dots.
func (g Gap) Field() string { return strings.Join(g.Path, ".") }

// GapsOfNodeWright are the fields of a NodeWright that are set and not acted on.
func GapsOfNodeWright(spec nwv1.NodeWrightSpec) []Gap {
	var gaps []Gap
	add := func(set bool, field, effect string) {
		if set {
			gaps = append(gaps, Gap{[]string{"spec", field}, effect + " are not supported by this version; leave the field out"})
		}
	}
	add(spec.VerifyInterval != nil, "verifyInterval", "periodic checks of hosts")
	return gaps
}
