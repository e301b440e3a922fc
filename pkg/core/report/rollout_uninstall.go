package report

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// abandonHint is how people give an uninstall up.
const abandonHint = "to leave the files where they are and go on, annotate the NodeWright with " +
	fleetv1.Group + "/" + fleetv1.VerbAbandonUninstall + "=<new value>"

// uninstalling is True while packages have to be uninstalled.
func uninstalling(s plan.Status) metav1.Condition {
	c := metav1.Condition{Type: ConditionUninstallProgress, Reason: ConditionUninstallProgress}
	if u := s.Uninstall; u != nil {
		c.Status, c.Message = metav1.ConditionTrue, "to be uninstalled on "+names(u.Count, u.Nodes)
		if u.Deleting {
			c.Message = "deleted; " + c.Message
		}
	}
	return c
}

// uninstallFailed names the first node whose uninstall failed, and the way out.
func uninstallFailed(s plan.Status) metav1.Condition {
	c := metav1.Condition{Type: ConditionUninstallFailed, Reason: UninstallPodFailing}
	if u := s.Uninstall; u != nil && len(u.Failures) > 0 {
		c.Status, c.Message = metav1.ConditionTrue, FailureText(u.Failures[0])+"; "+abandonHint
	}
	return c
}

// deletionBlocked is True when a deleted NodeWright waits and nothing goes on by itself.
func deletionBlocked(s plan.Status) metav1.Condition {
	c := metav1.Condition{Type: ConditionDeletionBlocked}
	u := s.Uninstall
	if u == nil || !u.Deleting || u.Held == "" {
		return c
	}
	c.Status = metav1.ConditionTrue
	switch u.Held {
	case plan.Paused:
		c.Reason, c.Message = PausedWithUninstall, "what has to be uninstalled waits: it is paused"
	case plan.Disabled:
		c.Reason, c.Message = DisabledWithUninstall, "what has to be uninstalled waits: it is disabled"
	case plan.RecordUnreadable:
		c.Reason, c.Message = MalformedNodeState, "the record cannot be read on "+names(int32(len(u.HeldNodes)), u.HeldNodes)
	default:
		c.Reason, c.Message = NodesExcluded, string(u.Held)+": "+names(int32(len(u.HeldNodes)), u.HeldNodes)
	}
	c.Message += "; " + abandonHint
	return c
}

// removalText is how the removal of a NodeWright that left the repository stands, by the conditions on it.
func removalText(conditions []metav1.Condition) string {
	text := "is being removed"
	for _, kind := range []string{ConditionDeletionBlocked, ConditionUninstallFailed, ConditionUninstallProgress} {
		for _, c := range conditions {
			if c.Type == kind && c.Status == metav1.ConditionTrue {
				return text + ": " + c.Message
			}
		}
	}
	return text
}
