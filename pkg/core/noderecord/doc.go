// Package noderecord is what a node says about itself: the typed record of one NodeWright on one node, and its
// translation to and from the node's annotations.
//
// The record lives in one annotation of ours, `fleetwright.dev/record_<nodewright>`. Beside it the keys of NVIDIA's
// NodeWright (`nodeState_`, `status_`, `version_`, `cordon_`) are written so that its tools keep working; of those only
// the cordon is read back. The reader is tolerant: unknown fields are kept and otherwise ignored, a malformed annotation yields an error
// for that NodeWright on that node and nothing else.
//
// A record only advances in (round, order); it is never erased while its NodeWright exists.
package noderecord
