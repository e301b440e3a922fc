// Package promotion decides whether a commit may be applied: the statuses that a Fleet waits for must be success on that very
// commit, each for its soak.
package promotion
