package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// keepUnused is how long a snapshot or a configuration stays after it was first seen to be unused.
const keepUnused = time.Hour

// ensureConfigMap creates an immutable ConfigMap whose name is derived from its content. One that is there and marked as
// unused is in use again from now on.
func (a *Actor) ensureConfigMap(ctx context.Context, cm *corev1.ConfigMap) error {
	have := &corev1.ConfigMap{}
	err := a.observer.cached.Get(ctx, client.ObjectKeyFromObject(cm), have)
	switch {
	case err == nil && usable(have), a.observer.expects(cm.Name):
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get configmap %s: %w", cm.Name, err)
	}
	created, err := a.client.CoreV1().ConfigMaps(cm.Namespace).Create(ctx, cm,
		metav1.CreateOptions{FieldManager: fleetv1.FieldManager})
	if apierrors.IsAlreadyExists(err) {
		created, err = a.useAgain(ctx, cm)
	}
	if err != nil {
		return fmt.Errorf("create configmap %s: %w", cm.Name, err)
	}
	a.observer.wroteConfigMap(cm.Name, created.ResourceVersion)
	return nil
}

func usable(cm *corev1.ConfigMap) bool {
	return cm.DeletionTimestamp == nil && cm.Annotations[unusedAnnotation] == "" && isOurs(cm)
}

// useAgain takes the mark off and puts labels back. It changes the object's version, so that a process that found the mark
// cannot delete it any more.
func (a *Actor) useAgain(ctx context.Context, cm *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	have, err := a.client.CoreV1().ConfigMaps(cm.Namespace).Get(ctx, cm.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, err
	case have.DeletionTimestamp != nil:
		return nil, errors.New("it is being deleted")
	case usable(have):
		return have, nil
	}
	return a.mark(ctx, have, nil, cm.Labels)
}

// mark writes or removes the mark, if the object is still the one that was looked at.
func (a *Actor) mark(ctx context.Context, have *corev1.ConfigMap, since *string, labels map[string]string) (*corev1.ConfigMap, error) {
	metadata := map[string]any{
		"uid": have.UID, "resourceVersion": have.ResourceVersion, "annotations": map[string]*string{unusedAnnotation: since},
	}
	if len(labels) > 0 { // null would take all of them off
		metadata["labels"] = labels
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, fmt.Errorf("write patch: %w", err)
	}
	return a.client.CoreV1().ConfigMaps(have.Namespace).Patch(ctx, have.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fleetv1.FieldManager})
}

// Sweep deletes snapshots that are not in use (by their hashes) and configurations that no Job mounts, in two steps: what is
// unused is marked first, and deleted when it has been for an hour, if nobody has used it again in between. What is used
// loses its mark.
func (a *Actor) Sweep(ctx context.Context, used map[string]bool, now time.Time) error {
	list, mounted, err := a.ownConfigMaps(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		cm := &list.Items[i]
		ours, inUse := standingOf(cm, used, mounted)
		if !ours {
			continue
		}
		if err := a.sweepOne(ctx, cm, inUse, now); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("sweep configmap %s: %w", cm.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Unused reports, from the caches, whether anything is unused, or marked as such.
func (a *Actor) Unused(ctx context.Context, used map[string]bool) (bool, error) {
	list, mounted, err := a.ownConfigMaps(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.Items, func(cm corev1.ConfigMap) bool {
		ours, inUse := standingOf(&cm, used, mounted)
		return ours && (!inUse || cm.Annotations[unusedAnnotation] != "")
	}), nil
}

// standingOf reports whether a ConfigMap is a snapshot or a package's configuration, and whether it is in use.
func standingOf(cm *corev1.ConfigMap, used, mounted map[string]bool) (ours, inUse bool) {
	hash, isConfiguration := cm.Labels[fleetv1.SnapshotLabel], cm.Labels[configMapLabel] != ""
	ours = (hash != "" || isConfiguration) && cm.DeletionTimestamp == nil
	return ours, hash != "" && used[hash] || isConfiguration && mounted[cm.Name]
}

// ownConfigMaps are our ConfigMaps, and the names of those that a Job mounts.
func (a *Actor) ownConfigMaps(ctx context.Context) (*corev1.ConfigMapList, map[string]bool, error) {
	list, jobs := &corev1.ConfigMapList{}, &batchv1.JobList{}
	for _, l := range []client.ObjectList{list, jobs} {
		if err := a.observer.cached.List(ctx, l, client.InNamespace(a.settings.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, nil, fmt.Errorf("list %T: %w", l, err)
		}
	}
	mounted := map[string]bool{}
	for i := range jobs.Items {
		for _, v := range jobs.Items[i].Spec.Template.Spec.Volumes {
			if v.ConfigMap != nil {
				mounted[v.ConfigMap.Name] = true
			}
		}
	}
	return list, mounted, nil
}

func (a *Actor) sweepOne(ctx context.Context, cm *corev1.ConfigMap, inUse bool, now time.Time) error {
	since := cm.Annotations[unusedAnnotation]
	at, err := time.Parse(time.RFC3339, since)
	switch {
	case inUse && since == "":
		return nil
	case inUse:
		_, err := a.mark(ctx, cm, nil, nil)
		return err
	case err != nil: // not marked, or by hand
		text := now.UTC().Format(time.RFC3339)
		_, err := a.mark(ctx, cm, &text, nil)
		return err
	case now.Sub(at) < keepUnused:
		return nil
	}
	return a.client.CoreV1().ConfigMaps(cm.Namespace).Delete(ctx, cm.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &cm.UID, ResourceVersion: &cm.ResourceVersion},
	})
}
