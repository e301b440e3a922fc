// Package adoption takes a cluster over from NVIDIA's operator: it gathers what that operator left (objects of both groups, node
// annotations, ConfigMaps, pods), lets the core say which records of ours mean the same, and writes objects and records.
package adoption
