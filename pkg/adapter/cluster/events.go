package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// Events writes events of events.k8s.io/v1. Writing is asynchronous and best effort; nothing depends on an event.
type Events struct{ recorder events.EventRecorder }

// NewEvents returns the writer.
func NewEvents(recorder events.EventRecorder) *Events { return &Events{recorder: recorder} }

// Emit writes one event.
func (w *Events) Emit(e report.RolloutEvent) {
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	var related runtime.Object // a nil interface, not a nil pointer in one
	if e.Related != nil {
		related = reference(*e.Related)
	}
	w.recorder.Eventf(reference(e.About), related, kind, e.Reason, e.Action, "%s", e.Note)
}

func reference(o report.Object) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: o.APIVersion(), Kind: o.Kind, Name: o.Name, UID: o.UID}
}
