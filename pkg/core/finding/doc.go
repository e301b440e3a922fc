// Package finding is the one shape of "something is wrong in your files": where, in which object and field, what, and what
// would be allowed. Overlay builds and manifest validation both return it, the command line and the reconciler print it.
package finding
