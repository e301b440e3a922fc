// Package pack is `fleetwright package`: it scaffolds, checks, tries out and builds packages, the units of host work.
//
//	source.go    a package's directory, read into memory
//	lint.go      everything that is wrong with it, as findings
//	scaffold.go  a new one to start from
//	trial.go     all its modes, one after the other, on a scratch host
//	scratch.go   that host: a copy-on-write image of this machine
//	image.go     the container image
package pack
