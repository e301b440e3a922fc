// Package charts carries the Helm chart of this repository, so that the demo and the tests install what is shipped, from
// whatever directory they run in.
package charts

import "embed"

// Fleetwright holds the chart's files under the directory `fleetwright`.
//
//go:embed all:fleetwright
var Fleetwright embed.FS
