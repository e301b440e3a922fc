package report

// Names of the rollout's metrics; all gauges carry the label MetricNodeWright unless said otherwise.
const (
	// MetricStatus is 1 for the current status (label `status`) and 0 for every other.
	MetricStatus = "fleetwright_status"
	// MetricNodes counts targeted nodes by `state`: complete, in_progress, failed, waiting, blocked.
	MetricNodes = "fleetwright_nodes"
	// MetricReasons counts the nodes that are not complete by `reason`.
	MetricReasons = "fleetwright_node_reasons"
	// MetricRound is the number of the current round.
	MetricRound = "fleetwright_rollout_round"
	// The following carry the label MetricCompartment too.
	MetricMatched    = "fleetwright_rollout_matched_nodes"
	MetricCeiling    = "fleetwright_rollout_ceiling"
	MetricInProgress = "fleetwright_rollout_in_progress"
	MetricCompleted  = "fleetwright_rollout_completed"
	MetricFailed     = "fleetwright_rollout_failed"
	MetricBatch      = "fleetwright_rollout_current_batch"
	MetricHalted     = "fleetwright_rollout_halted"
	// MetricPasses counts passes by `result`: ok, error, conflict. No other label.
	MetricPasses = "fleetwright_passes_total"
	// MetricPassSeconds is a histogram of how long a pass takes. No label.
	MetricPassSeconds = "fleetwright_pass_duration_seconds"
	// MetricDecisions counts decisions that were carried out by `action` and `result`: ok, conflict, error.
	MetricDecisions = "fleetwright_decisions_total"
	// MetricEvictions counts evictions by `result`, see EvictionResult.
	MetricEvictions = "fleetwright_evictions_total"
)

// Labels of the rollout's metrics.
const (
	MetricNodeWright  = "nodewright"
	MetricCompartment = "compartment"
)
