package manifest

import (
	"errors"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// checkJSONSchema returns one problem per real cause.
func (k *kind) checkJSONSchema(value map[string]any) []problem {
	err := k.json.Validate(value)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil
	}
	var out []problem
	for _, leaf := range leaves(invalid) {
		out = append(out, k.word(value, leaf)...)
	}
	return out
}

// lostDigits finds numbers that no reader of JSON keeps exactly and that no schema limits, such as a quantity without quotes. What
// was found already stays the only word about its place.
func lostDigits(value any, found []problem) []problem {
	var out []problem
	var walk func(path, any)
	walk = func(at path, value any) {
		switch v := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(at.child(key), v[key])
			}
		case []any:
			for i, item := range v {
				walk(at.child(strconv.Itoa(i)), item)
			}
		case float64:
			known := slices.ContainsFunc(found, func(p problem) bool { return p.path.covers(at) })
			if isHuge(v) && !known {
				out = append(out, problem{code: CodeInvalidValue, path: at, message: "is " + show(v) + ", which loses digits; put it in quotes"})
			}
		}
	}
	walk(nil, value)
	return out
}

// isHuge says that a number does not fit into an integer of 64 bits.
func isHuge(number float64) bool { return number >= math.MaxInt64 || number < math.MinInt64 }

// leaves are the errors that no other error causes.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		out = append(out, leaves(cause)...)
	}
	return out
}

// word turns a leaf into problems: one each for several unknown or missing fields.
func (k *kind) word(value map[string]any, leaf *jsonschema.ValidationError) []problem {
	at, keyword := splitPointer(leaf.InstanceLocation), splitPointer(leaf.KeywordLocation)
	last := keyword[len(keyword)-1]
	owner, _ := keyword[:len(keyword)-1].in(k.words).(map[string]any)
	here := at.in(value)
	switch last {
	case "additionalProperties":
		return unknownFields(at, here, owner)
	case "required":
		return missingFields(at, here, owner)
	}
	p := wordValue(last, here, owner, mayBeSecret(at))
	p.path = at
	return []problem{p}
}

// mayBeSecret says that people might keep a secret there, although a Secret is the place for it.
func mayBeSecret(at path) bool { return slices.Contains(at, "env") || slices.Contains(at, "configMap") }

func splitPointer(pointer string) path {
	var p path
	for _, token := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if token == "" && pointer == "" {
			return nil
		}
		if plain, err := url.PathUnescape(token); err == nil {
			token = plain
		}
		p = append(p, strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
	}
	return p
}

func unknownFields(at path, here any, owner map[string]any) []problem {
	object, _ := here.(map[string]any)
	known, _ := owner["properties"].(map[string]any)
	allowed := slices.Sorted(maps.Keys(known))
	var out []problem
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if known[name] != nil {
			continue
		}
		message := "unknown field"
		if near := nearest(name, allowed); near != "" {
			message += ", did you mean " + near + "?"
		}
		out = append(out, problem{
			code: CodeUnknownField, path: at.child(name), message: message, allowed: strings.Join(allowed, ", "),
		})
	}
	return out
}

func missingFields(at path, here any, owner map[string]any) []problem {
	object, _ := here.(map[string]any)
	required, _ := owner["required"].([]any)
	var out []problem
	for _, r := range required {
		name, _ := r.(string)
		if _, ok := object[name]; !ok {
			out = append(out, problem{code: CodeMissingField, path: at.child(name), message: "is required"})
		}
	}
	return out
}

// nearest is the candidate that a typing error may have turned into name: the same letters in another case, or at most two
// edits away (one for short names).
func nearest(name string, candidates []string) string {
	limit := 2
	if len(name) < 5 {
		limit = 1
	}
	best := ""
	for _, c := range candidates {
		if strings.EqualFold(name, c) {
			return c
		}
		if d := finding.Distance(name, c); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}
