package plan_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain gives the random histories a seed, so that a run says the same each time. Another -rapid.seed, and more
// -rapid.checks, look for what nobody has seen yet.
func TestMain(m *testing.M) {
	flag.Parse()
	if seed := flag.Lookup("rapid.seed"); seed != nil && seed.Value.String() == "0" {
		if err := seed.Value.Set("20261130"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
