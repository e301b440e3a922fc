package crash

import (
	"io"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	if os.Getenv("FLEETWRIGHT_TEST_LOG") == "" { // what a process says that dies is no news here
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard)
		ctrl.SetLogger(logr.Discard())
	}
	code := m.Run()
	stopLanes()
	os.Exit(code)
}
