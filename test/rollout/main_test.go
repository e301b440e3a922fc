package rollout

import (
	"testing"

	"github.com/fleetwright/fleetwright/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{Controllers: true, Scheduler: true}) }
