package main

import (
	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/pack"
)

func newPackage(streams Streams) *cobra.Command {
	return pack.New(pack.Streams{Out: streams.Out, ErrOut: streams.ErrOut})
}
