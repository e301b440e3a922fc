package window

import (
	"fmt"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// ParseAll reads the windows of a DeploymentPolicy. Each that cannot be read is a sentence that names its field, and the
// set is then not to be acted on.
func ParseAll(windows []nwv1.Window) (Set, []string) {
	var out Set
	var problems []string
	for i, w := range windows {
		parsed, err := Parse(w.Cron, w.Duration.Duration, w.TimeZone)
		if err != nil {
			problems = append(problems, fmt.Sprintf("spec.windows[%d]: %v", i, err))
			continue
		}
		out = append(out, parsed)
	}
	return out, problems
}
