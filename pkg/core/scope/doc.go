// Package scope decides what a Fleet's scope lets a package do: which images, which interrupts, with a digest or without. Validation
// asks it about manifests, the planner about objects as they are in the cluster.
package scope
