// Package lab holds what demo, playground and their tests put together: a real control plane with the chart installed and simulated
// nodes, the programs of the product as processes, and the work tree of a person who changes a fleet.
package lab
