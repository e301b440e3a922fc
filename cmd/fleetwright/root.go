package main

import (
	"io"

	"github.com/spf13/cobra"
)

// Streams are where a command reads and writes.
type Streams struct {
	In     io.Reader
	Out    io.Writer
	ErrOut io.Writer
}

// newRoot lists every command; each has a file of its own.
func newRoot(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "fleetwright",
		Short:         "Roll host changes over a fleet of nodes, from git",
		SilenceUsage:  true, // an error is one sentence; --help has the usage
		SilenceErrors: true, // run prints it
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.AddCommand(
		newValidate(streams),
		newSimulate(streams),
		newPlan(streams),
		newExplain(streams),
		newAdopt(streams),
		newPromote(streams),
		newPackage(streams),
	)
	root.AddCommand(newVerbs(streams)...)
	return root
}
