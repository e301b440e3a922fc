package manifest

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// A CEL rule on a map or list speaks about it as a whole. These functions, by the rule's message, tell which of its
// entries broke the rule, so that a finding points at the line.
var culpritsByMessage = map[string]func(any) []path{
	"a package name must have 2 to 43 lower-case letters, digits or hyphens, and start and end with a letter": keysThat(func(key string, _ any) bool {
		return !packageName.MatchString(key)
	}),
	"name must be left out or equal the key of the package": keysThat(func(key string, entry any) bool {
		name, ok := step(entry, "name").(string)
		return ok && name != key
	}, "name"),
	"<package>-<version> must be at most 63 characters, because it becomes a label value": keysThat(func(key string, entry any) bool {
		version, _ := step(entry, "version").(string)
		return len(key)+1+len(version) > 63
	}, "version"),
	"a package cannot depend on itself": keysThat(func(key string, entry any) bool {
		return step(step(entry, "dependsOn"), key) != nil
	}, "dependsOn"),
	"each entry needs the exact version of the package that it depends on": keysThat(func(_ string, version any) bool {
		return version == ""
	}),
	"a configMap key must have 1 to 253 letters, digits, dots, hyphens or underscores": keysThat(func(key string, _ any) bool {
		return !configKey.MatchString(key)
	}),
	"keys must be label keys, such as pool or example.com/pool": keysThat(func(key string, _ any) bool {
		return len(key) > 317 || !labelKey.MatchString(key)
	}),
	"values must be label values: at most 63 letters, digits, dots, hyphens or underscores": keysThat(func(_ string, value any) bool {
		text, _ := value.(string)
		return !labelValue.MatchString(text)
	}),
	"compartment names must be unique": repeatedNames,
}

var (
	packageName = regexp.MustCompile(`^[a-z][-a-z0-9]{0,41}[a-z]$`)
	labelKey    = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue  = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
	configKey   = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)
)

func culprits(message string, value any) []path {
	find, ok := culpritsByMessage[message]
	if !ok {
		return nil
	}
	return find(value)
}

// keysThat finds the keys for which bad is true; suffix leads from the key's value to the field that is wrong.
func keysThat(bad func(key string, value any) bool, suffix ...string) func(any) []path {
	return func(value any) []path {
		object, _ := value.(map[string]any)
		var out []path
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if bad(key, object[key]) {
				out = append(out, path{key}.child(suffix...))
			}
		}
		return out
	}
}

func repeatedNames(value any) []path {
	list, _ := value.([]any)
	seen := map[any]bool{}
	var out []path
	for i, item := range list {
		name := step(item, "name")
		if seen[name] {
			out = append(out, path{strconv.Itoa(i), "name"})
		}
		seen[name] = true
	}
	return out
}
