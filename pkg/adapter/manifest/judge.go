package manifest

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// judgement is the verdict on one document by itself.
type judgement struct {
	problems  []problem
	defaulted map[string]any // what the API server would store
}

// judge follows the API server's order of steps. JSON Schema comes first because its findings can be worded best; the
// values that it rejects are taken out, so that the later steps still judge the rest and everything is found at once.
func (k *kind) judge(value map[string]any) judgement {
	found := k.checkJSONSchema(value)
	found = append(found, lostDigits(value, found)...)
	doc := runtime.DeepCopyJSON(value)
	removed := removeRejected(doc, found)
	delete(doc, "status") // nobody sets a status by creating an object
	defaulting.PruneNonNullableNullsWithoutDefaults(doc, k.structural)
	defaulting.Default(doc, k.structural)

	unexplained := func(problems []problem) []problem {
		return slices.DeleteFunc(problems, func(p problem) bool { return explained(p.path, removed) })
	}
	found = append(found, unexplained(k.checkMetadata(doc))...)
	inSchema := unexplained(k.checkCRDSchema(doc))
	found = append(found, inSchema...)
	if len(inSchema) == 0 { // CEL rules rely on the types
		found = append(found, unexplained(k.checkCEL(doc))...)
	}
	return judgement{problems: found, defaulted: doc}
}

// removeRejected deletes what the problems speak about, and returns what it deleted. A list is deleted as a whole: without
// one of its items, the indexes of the others would be wrong.
func removeRejected(doc map[string]any, problems []problem) []path {
	var removed []path
	for _, p := range problems {
		at := p.path
		for i := range at {
			if _, isList := at[:i].in(doc).([]any); isList {
				at = at[:i]
				break
			}
		}
		removed = append(removed, at)
		if len(at) == 0 {
			continue
		}
		if parent, ok := at[:len(at)-1].in(doc).(map[string]any); ok {
			delete(parent, at[len(at)-1])
		}
	}
	return removed
}

// explained says that a problem is, or may be, the consequence of a value that was taken out.
func explained(p path, removed []path) bool {
	for _, r := range removed {
		if p.covers(r) || r.covers(p) {
			return true
		}
	}
	return false
}

func (k *kind) checkMetadata(doc map[string]any) []problem {
	meta, _, err := objectmeta.GetObjectMeta(doc, false)
	if err != nil {
		return []problem{{code: CodeInvalidMetadata, path: path{"metadata"}, message: err.Error()}}
	}
	if !k.namespaced {
		meta.Namespace = "" // an overlay's namespace reaches every object; the API server ignores it here, too
	}
	errs := apivalidation.ValidateObjectMeta(meta, k.namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	var out []problem
	for _, e := range errs {
		out = append(out, problem{code: CodeInvalidMetadata, path: parseField(doc, e.Field), message: metadataMessage(e)})
	}
	return out
}

func metadataMessage(e *field.Error) string {
	if e.Type == field.ErrorTypeRequired {
		return "is required"
	}
	return e.Detail
}

func (k *kind) checkCRDSchema(doc map[string]any) []problem {
	errs := validation.ValidateCustomResource(nil, doc, k.openapi)
	return fromFieldErrors(doc, append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, doc)...))
}

func (k *kind) checkCEL(doc map[string]any) []problem {
	errs, _ := k.cel.Validate(context.Background(), nil, k.structural, doc, nil, celconfig.RuntimeCELCostBudget)
	return fromFieldErrors(doc, errs)
}

func fromFieldErrors(doc map[string]any, errs field.ErrorList) []problem {
	var out []problem
	for _, e := range errs {
		out = append(out, fromFieldError(doc, e)...)
	}
	return out
}

// fromFieldError words an error of the API server's machinery, at the key or item that it is about.
func fromFieldError(doc map[string]any, e *field.Error) []problem {
	at, message := parseField(doc, e.Field), e.Detail
	if e.Field == "<nil>" || e.Field == "" {
		at = nil
	}
	if rest, ok := strings.CutPrefix(message, "metadata.name: "); ok && len(at) == 0 {
		at, message = path{"metadata", "name"}, rest
	}
	if message == "" {
		message = e.ErrorBody()
	}
	var out []problem
	for _, inner := range culprits(message, at.in(doc)) {
		out = append(out, problem{code: CodeRule, path: at.child(inner...), message: message})
	}
	if out == nil {
		out = append(out, problem{code: CodeRule, path: at, place: missingIn(at, message), message: message})
	}
	return out
}

var requires = regexp.MustCompile(`^([a-zA-Z]+) is required\b`)

// missingIn is the field that a rule misses: a patch may have taken it away, and is then the place to point at. Nil if the rule
// misses none.
func missingIn(at path, message string) path {
	if m := requires.FindStringSubmatch(message); m != nil {
		return at.child(m[1])
	}
	return nil
}
