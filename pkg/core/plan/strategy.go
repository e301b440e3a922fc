package plan

import (
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

type strategyKind string

const (
	kindFixed       strategyKind = "fixed"
	kindLinear      strategyKind = "linear"
	kindExponential strategyKind = "exponential"
	kindNone        strategyKind = "none"
)

// rank orders strategies from the safest.
func (k strategyKind) rank() int {
	switch k {
	case kindFixed:
		return 0
	case kindLinear:
		return 1
	case kindExponential:
		return 2
	}
	return 3
}

// rules are a strategy with its defaults filled in.
type rules struct {
	kind strategyKind
	// rolling admits whenever a slot is free, instead of batch by batch.
	rolling bool
	// initial batch; 0 stands for the ceiling (no strategy).
	initial        int
	batchThreshold int
	safetyLimit    int
	// failureThreshold 0 never halts.
	failureThreshold int
	delta, factor    int
}

// rollingRules are those of an interruptionBudget alone: work-conserving, never halting.
func rollingRules() rules {
	r := rulesOf(nil)
	r.rolling = true
	return r
}

// rulesOf reads a strategy; nil is none: batches as large as the ceiling.
func rulesOf(s *nwv1.DeploymentStrategy) rules {
	switch {
	case s != nil && s.Fixed != nil:
		r := common(kindFixed, s.Fixed.BatchRules)
		r.rolling = s.Fixed.Advance == nwv1.AdvanceRolling
		return r
	case s != nil && s.Linear != nil:
		r := common(kindLinear, s.Linear.BatchRules)
		r.delta = int(or(s.Linear.Delta, nwv1.DefaultDelta))
		return r
	case s != nil && s.Exponential != nil:
		r := common(kindExponential, s.Exponential.BatchRules)
		r.factor = int(or(s.Exponential.GrowthFactor, nwv1.DefaultGrowthFactor))
		return r
	}
	r := common(kindNone, nwv1.BatchRules{})
	r.initial = 0
	return r
}

func common(kind strategyKind, b nwv1.BatchRules) rules {
	r := rules{
		kind:           kind,
		initial:        int(or(b.InitialBatch, nwv1.DefaultInitialBatch)),
		batchThreshold: int(or(b.BatchThreshold, nwv1.DefaultBatchThreshold)),
		safetyLimit:    int(or(b.SafetyLimit, nwv1.DefaultSafetyLimit)),
	}
	if b.FailureThreshold != nil {
		r.failureThreshold = int(*b.FailureThreshold)
	}
	return r
}

// bounded fills in what depends on the ceiling.
func (r rules) bounded(ceiling int) rules {
	if r.initial == 0 {
		r.initial = max(1, ceiling)
	}
	return r
}

// nextSize is the strategy size of the batch after the one that the ledger holds.
func (r rules) nextSize(c fleetv1.LedgerCompartment, ceiling int) int {
	size := int(c.Size)
	switch {
	case size == 0 || r.kind == kindFixed || r.kind == kindNone:
		return r.initial
	case c.Batch == 0: // carried over from the round before
		return size
	case c.LastBad:
		return max(1, r.shrunk(size))
	case c.Cut:
		return size
	}
	return max(1, min(r.grown(size), max(ceiling, size)))
}

func (r rules) grown(size int) int {
	if r.kind == kindLinear {
		return size + r.delta
	}
	return size * r.factor
}

func (r rules) shrunk(size int) int {
	if r.kind == kindLinear {
		return size - r.delta
	}
	return size / r.factor
}

// verdict judges ended nodes at a progress in percent. A batch of which nobody ended counts neither way.
func (r rules) verdict(c fleetv1.LedgerCompartment, succeeded, failed, progress int) fleetv1.LedgerCompartment {
	c.Succeeded += int32(succeeded)
	c.Failed += int32(failed)
	if succeeded+failed == 0 {
		return c
	}
	early := progress < r.safetyLimit
	bad := succeeded*100/(succeeded+failed) < r.batchThreshold
	c.LastBad = bad && early
	switch {
	case !bad:
		c.ConsecutiveBad = 0
	case early:
		c.ConsecutiveBad++
	}
	return c
}

// halts reports whether the bad batches in a row have reached the threshold.
func (r rules) halts(c fleetv1.LedgerCompartment) bool {
	return r.failureThreshold > 0 && int(c.ConsecutiveBad) >= r.failureThreshold
}

func or(v, def int32) int32 {
	if v == 0 {
		return def
	}
	return v
}
