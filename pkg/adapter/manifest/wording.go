package manifest

import (
	"fmt"
	"math"
	"strings"
)

// wordsByPattern says in words what a pattern of the schemas wants.
var wordsByPattern = map[string]string{
	`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`:     "must be a duration such as 90s, 30m or 1h30m",
	`^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$`:         "must be a duration such as 90s, 30m or 1h30m",
	`^sha256:[0-9a-f]{64}$`:                              "must be sha256: followed by 64 hexadecimal digits in lower case",
	`^([0-9a-f]{40}|[0-9a-f]{64})?$`:                     "must be a full commit SHA of 40 or 64 hexadecimal digits",
	`^[a-zA-Z0-9:_.@\\][a-zA-Z0-9:_.@\\-]*$`:             "must be the name of a systemd unit, such as containerd or chrony.service",
	`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`: "must be a label value: at most 63 letters, digits, dots, hyphens or underscores",
}

// quantityPattern starts the pattern that controller-gen writes for Kubernetes quantities.
const quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))`

// wordValue words a rejected value by the keyword that rejected it; owner is the schema that holds the keyword.
func wordValue(keyword string, here any, owner map[string]any, secret bool) problem {
	limit := owner[keyword]
	switch keyword {
	case "type":
		return problem{code: CodeInvalidType, message: wordType(here, limit, secret)}
	case "enum":
		return problem{code: CodeInvalidValue, message: show(here) + " is not allowed", allowed: enumeration(limit)}
	case "const":
		return problem{code: CodeInvalidValue, message: show(here) + " is not allowed", allowed: fmt.Sprint(limit)}
	case "pattern":
		return problem{code: CodeInvalidValue, message: wordPattern(fmt.Sprint(limit)) + ", not " + show(here)}
	}
	return problem{code: CodeInvalidValue, message: wordLimit(keyword, here, limit)}
}

var wordsByLimit = map[string]string{
	"minimum":       "must be at least %v",
	"maximum":       "must be at most %v",
	"minLength":     "must not be shorter than %v",
	"maxLength":     "must have at most %v characters",
	"minItems":      "must not have fewer items than %v",
	"maxItems":      "must have at most %v items",
	"minProperties": "must not have fewer entries than %v",
	"maxProperties": "must have at most %v entries",
}

func wordLimit(keyword string, here, limit any) string {
	words, ok := wordsByLimit[keyword]
	switch {
	case strings.HasPrefix(keyword, "min") && keyword != "minimum" && fmt.Sprint(limit) == "1":
		return "must not be empty"
	case !ok:
		return fmt.Sprintf("breaks the rule %s: %v", keyword, limit)
	}
	message := fmt.Sprintf(words, limit)
	if keyword == "minimum" || keyword == "maximum" {
		message += ", not " + show(here)
	}
	return message
}

func wordPattern(pattern string) string {
	if words, ok := wordsByPattern[pattern]; ok {
		return words
	}
	if strings.HasPrefix(pattern, quantityPattern) {
		return "must be a quantity such as 500m, 2 or 4Gi"
	}
	return "must match " + pattern
}

// wordType shows the value, unless it may be a secret.
func wordType(here, types any, secret bool) string {
	want, got := typeNames(types), typeName(here)
	if isScalar(here) && !secret {
		got = strings.Replace(got, "a ", "the ", 1) + " " + show(here)
	}
	message := fmt.Sprintf("must be %s, not %s", want, got)
	if _, isText := here.(string); want == "a string" && !isText && isScalar(here) {
		message += "; put it in quotes"
	}
	return message
}

func isScalar(value any) bool {
	switch value.(type) {
	case nil, []any, map[string]any:
		return false
	}
	return true
}

// typeNames leaves null out: that a field may be left out says nothing about what belongs there.
func typeNames(types any) string {
	list, ok := types.([]any)
	if !ok {
		list = []any{types}
	}
	var names []string
	for _, t := range list {
		if name := article[fmt.Sprint(t)]; name != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

var article = map[string]string{
	"string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false",
	"array": "a list", "object": "a map",
}

func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "empty"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return "a number"
}

// show quotes a value, cut to a readable length.
func show(value any) string {
	const longest = 60
	if number, ok := value.(float64); ok && isHuge(number) { // its last digits are lost
		if number > 0 {
			return fmt.Sprintf("a number above %d", int64(math.MaxInt64))
		}
		return fmt.Sprintf("a number below %d", int64(math.MinInt64))
	}
	text, ok := value.(string)
	if !ok {
		return fmt.Sprint(value)
	}
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "…"
	}
	return fmt.Sprintf("%q", text)
}

func enumeration(values any) string {
	list, _ := values.([]any)
	var names []string
	for _, v := range list {
		if v != nil && v != "" {
			names = append(names, fmt.Sprint(v))
		}
	}
	return strings.Join(names, ", ")
}
