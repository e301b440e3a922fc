// Package adopt reads what NVIDIA's operator wrote on a node, in its format up to v0.17 (`skyhook.nvidia.com`) and since v0.18
// (`nodewright.nvidia.com`), and says which record of ours means the same: complete packages are complete with the hashes that
// the planner computes, what is half-way is left for the planner, and what could mean two things is listed and not decided.
//
// It may import the API types and the core packages desired, noderecord and plan.
package adopt
