package ask

import (
	"fmt"
	"strings"
	"time"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/promotion"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// Promotion lets one commit of one Fleet through.
type Promotion struct {
	// Fleet is `namespace/name`.
	Fleet string
	// Commit in full, and what it waited for.
	Commit, Waits string
}

// minDigits is the shortest piece of a hash that names a commit.
const minDigits = 7

// Promote reads what a Fleet holds back. The error says in one sentence what can be asked for instead.
func Promote(fleet *fleetv1.Fleet, commit string, now time.Time) (Promotion, error) {
	out := Promotion{Fleet: fleet.Namespace + "/" + fleet.Name}
	waiting := fleet.Status.Promotion
	if waiting == nil {
		return out, fmt.Errorf("no commit waits: Fleet %s holds none back", out.Fleet)
	}
	out.Commit = report.CommitOf(waiting.Revision)
	out.Waits = promotion.Sentence(waiting, report.GatesOf(fleet), now)
	switch asked := strings.ToLower(commit); {
	case commit == "":
		return out, fmt.Errorf("--commit is required: Fleet %s holds back %s, %s", out.Fleet, out.Commit, out.Waits)
	case len(asked) < minDigits:
		return out, fmt.Errorf("--commit %s is too short (allowed: at least %d digits)", commit, minDigits)
	case !strings.HasPrefix(out.Commit, asked):
		return out, fmt.Errorf("commit %s does not wait: Fleet %s holds back %s, %s", commit, out.Fleet, out.Commit, out.Waits)
	}
	return out, nil
}

// Text says what was done, or would be.
func (p Promotion) Text(done bool) string {
	verb := "would be set"
	if done {
		verb = "is set"
	}
	return fmt.Sprintf("Fleet %s: %s: %q %s\ncommit %s is applied without waiting any longer (%s)\n", p.Fleet, fleetv1.PromoteAnnotation, p.Commit, verb, p.Commit, p.Waits)
}
