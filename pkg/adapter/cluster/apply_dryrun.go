package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// dryRun asks the server what the write would change, and fills in the item's body and diff. A refusal of the object's
// content is a finding; an error means that the server could not be asked.
func (a *Applier) dryRun(ctx context.Context, it *item) (*finding.Finding, error) {
	var err error
	if it.body, err = it.want.MarshalJSON(); err != nil {
		return nil, unreadable(it.name(), err)
	}
	answer, err := a.send(ctx, it, client.DryRunAll)
	switch {
	case err == nil && it.live != nil:
		it.diff = differences(it.live.Object, answer.Object)
		return nil, nil
	case err == nil:
		return nil, nil
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil, &report.Failure{
			Reason:  report.ReasonApplyFailed,
			Message: fmt.Sprintf("the cluster does not serve %s: install the CRDs of the chart", it.want.GroupVersionKind().GroupKind()),
		}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return refusal(it, err), nil
	}
	return nil, a.failed("dry run of", it.name(), err)
}

func refusal(it *item, err error) *finding.Finding {
	return &finding.Finding{
		Code: report.ReasonRefused, Severity: finding.Error,
		File: it.want.GetAnnotations()[fleetv1.OriginAnnotation], Kind: it.want.GetKind(), Name: it.want.GetName(),
		Message: "the API server refuses it: " + serverSentence(err),
	}
}

func unreadable(what string, err error) *report.Failure {
	return &report.Failure{Reason: report.ReasonApplyFailed, Message: fmt.Sprintf("read %s: %s", what, serverSentence(err))}
}

// serverSentence is an API error without the parts that the reader knows from the context, on one line.
func serverSentence(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		var causes []string
		for _, c := range status.Status().Details.Causes {
			causes = append(causes, strings.TrimPrefix(c.Field+": ", ": ")+c.Message)
		}
		if len(causes) > 0 {
			return oneLine(strings.Join(causes, "; "))
		}
	}
	return oneLine(err.Error())
}

func oneLine(text string) string { return report.Redact(strings.Join(strings.Fields(text), " ")) }

// covers says that live has every field of want with its value. Lists must be equal: where the server fills defaults into
// their entries the dry run tells.
func covers(live, want any) bool {
	wanted, ok := want.(map[string]any)
	if !ok {
		return same(live, want)
	}
	have, ok := live.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range wanted {
		if had, found := have[key]; !found || !covers(had, value) {
			return false
		}
	}
	return true
}

// same compares two values of decoded JSON; 1 and 1.0 are the same number.
func same(a, b any) bool {
	x, isNumber := numeric(a)
	y, alsoNumber := numeric(b)
	if isNumber && alsoNumber {
		return x == y
	}
	return reflect.DeepEqual(a, b)
}

func numeric(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// differences are the paths at which two objects differ, sorted; fields that every write touches do not count.
func differences(before, after map[string]any) []string {
	x, y := (&unstructured.Unstructured{Object: before}).DeepCopy(), (&unstructured.Unstructured{Object: after}).DeepCopy()
	for _, o := range []*unstructured.Unstructured{x, y} {
		o.SetManagedFields(nil)
		o.SetResourceVersion("")
		o.SetGeneration(0)
	}
	var out []string
	walk("", x.Object, y.Object, func(path string) { out = append(out, path) })
	return out
}

func walk(path string, a, b any, differs func(string)) {
	x, isMap := a.(map[string]any)
	y, alsoMap := b.(map[string]any)
	if !isMap || !alsoMap {
		if !same(a, b) {
			differs(path)
		}
		return
	}
	keys := maps.Clone(x)
	maps.Copy(keys, y)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		walk(joinPath(path, key), x[key], y[key], differs)
	}
}

// joinPath writes a path as people do; keys with dots stand in brackets.
func joinPath(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}
