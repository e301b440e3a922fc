package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Paused says that the pause annotation holds the NodeWright.
func (n *NodeWright) Paused() bool { return n.Annotations[PauseAnnotation] == TrueValue }

// Disabled says that the disable annotation takes the NodeWright out.
func (n *NodeWright) Disabled() bool { return n.Annotations[DisableAnnotation] == TrueValue }

// DrainSettings is a DrainConfig with its defaults filled in.
type DrainSettings struct {
	DisableEviction    bool
	DeleteEmptyDirData bool
	Force              bool
	IgnoreDaemonSets   bool
	// Timeout of the whole drain; zero means none.
	Timeout time.Duration
	// GracePeriod for the pods; nil means each pod's own.
	GracePeriod *time.Duration
	OnTimeout   DrainTimeoutAction
}

// Settings fills in the defaults; a nil DrainConfig has them all.
func (d *DrainConfig) Settings() DrainSettings {
	if d == nil {
		d = &DrainConfig{}
	}
	s := DrainSettings{
		DisableEviction:    valueOr(d.DisableEviction, false),
		DeleteEmptyDirData: valueOr(d.DeleteEmptyDirData, true),
		Force:              valueOr(d.Force, true),
		IgnoreDaemonSets:   valueOr(d.IgnoreDaemonSets, true),
		Timeout:            duration(d.Timeout),
		OnTimeout:          d.OnTimeout,
	}
	if d.GracePeriod != nil {
		s.GracePeriod = &d.GracePeriod.Duration
	}
	if s.OnTimeout == "" {
		s.OnTimeout = DefaultOnTimeout
	}
	return s
}

// WaitLimit is protectedPodsTimeout; zero means none.
func (s *NodeWrightSpec) WaitLimit() time.Duration { return duration(s.ProtectedPodsTimeout) }

func valueOr(b *bool, def bool) bool {
	if b == nil {
		return def
	}
	return *b
}

func duration(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}
