package plan

import nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"

// cause is why a node, or all nodes that wait for the same thing, do not go on. nil: nothing holds them back. It is
// shared and never changed.
type cause struct {
	code Code
	// object is what is waited for, see Reason.Object.
	object  string
	message string
}

// Causes that many nodes have in the same words.
var (
	causeComplete    = &cause{Complete, "", "every package is done"}
	causeSatisfied   = &cause{Complete, "", "every package is done; the wanted state of one was there already (skipIfSatisfied)"}
	causeNotReady    = &cause{NodeNotReady, "", "the node is not Ready"}
	causeIgnored     = &cause{Ignored, "", "the node carries the label " + nwv1.IgnoreLabel + "=true"}
	causeLookedUp    = &cause{WaitingForBatch, "", "it is being looked up which nodes have protected pods"}
	causeGating      = &cause{Gating, "", "the node is new and gets the runtime-required taint first"}
	causeGatingAgain = &cause{Gating, "", "the node gets the runtime-required taint back before its packages run again"}
	causeSuperseded  = &cause{Superseded, "", "an earlier turn of the node is being closed"}
)

// is reports whether there is a cause with this code.
func (c *cause) is(code Code) bool { return c != nil && c.code == code }
