// Package wake decides whom a webhook wakes: which Fleets name the repository of an event, and which of them follow what
// moved. An event is a hint and nothing else; no revision in it is ever used, so that the worst that a wrong one does is a
// look at the repository.
//
// The package is part of the core: it is pure.
package wake
