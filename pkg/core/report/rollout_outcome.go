package report

// Outcome is what came of one decision that was carried out. What has to be waited for is a value here; an error beside
// it is a surprise.
type Outcome struct {
	// Conflict says that the node, or its record, is no longer what the decision was made from. Nothing was written;
	// the next pass decides anew.
	Conflict bool
	// Detail says what had changed, for a log.
	Detail string
	// Written says that the node was changed.
	Written bool
	// EarlierRunning names an unfinished execution of an earlier round, because of which nothing was started.
	EarlierRunning string
	// Started and Stopped are the Jobs that were created (or existed) and deleted.
	Started, Stopped []string
	// Evictions are what came of each eviction, in the order of the decision.
	Evictions []EvictionOutcome
}
