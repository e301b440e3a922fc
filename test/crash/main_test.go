package crash

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	if os.Getenv("FLEETWRIGHT_TEST_LOG") == "" { // what a process says that dies is no news here
		klog.SetLogger(logr.Discard())
		ctrl.SetLogger(logr.Discard())
	}
	code := m.Run()
	stopLanes()
	os.Exit(code)
}
