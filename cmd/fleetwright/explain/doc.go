// Package explain says why a live cluster's nodes stand where they stand. It gathers as the reconciler gathers, with
// live reads in the place of caches, lets the planner compute, and words the reasons. It writes nothing.
package explain
