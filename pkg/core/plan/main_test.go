package plan_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain gives the random histories a seed, so that a run says the same each time, and makes ten times as many of them as
// is usual. Another -rapid.seed, and more -rapid.checks, look for what nobody has seen yet.
func TestMain(m *testing.M) {
	flag.Parse()
	preset("rapid.seed", "0", "20261130")
	preset("rapid.checks", "100", "1000")
	os.Exit(m.Run())
}

// preset sets a flag that has its default.
func preset(name, usual, value string) {
	if f := flag.Lookup(name); f != nil && f.Value.String() == usual {
		if err := f.Value.Set(value); err != nil {
			panic(err)
		}
	}
}
