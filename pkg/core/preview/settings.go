package preview

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// settingsOf are the fields of two values that differ, by their paths as people write them, sorted. Entries of lists are told
// apart by their `name`, others by their place.
func settingsOf(before, after any) []Setting {
	out := []Setting{}
	walk("", plain(before), plain(after), &out)
	return out
}

// plain is a value as its JSON says: maps, lists and scalars.
func plain(v any) any {
	if v == nil {
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil { // plain data always marshals
		panic(fmt.Sprintf("compare %T: %v", v, err))
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(fmt.Sprintf("compare %T: %v", v, err))
	}
	return out
}

func walk(path string, before, after any, out *[]Setting) {
	a, aIsTree := tree(before)
	b, bIsTree := tree(after)
	if named(before) && after == nil || named(after) && before == nil { // each entry is told by its name
		aIsTree, bIsTree = true, true
	}
	switch {
	case aIsTree && bIsTree:
		for _, key := range union(a, b) {
			walk(join(path, key), a[key], b[key], out)
		}
	case aIsTree || bIsTree:
		*out = append(*out, Setting{Field: path, Change: changeOf(before, after)})
	case before != after:
		*out = append(*out, Setting{Field: path, Change: changeOf(before, after), Old: scalar(before), New: scalar(after)})
	}
}

// tree is a map, or a list as a map by the names or places of its entries.
func tree(v any) (map[string]any, bool) {
	switch typed := v.(type) {
	case map[string]any:
		return typed, true
	case []any:
		out := make(map[string]any, len(typed))
		for i, entry := range typed {
			key := strconv.Itoa(i)
			if named, ok := entry.(map[string]any); ok {
				if name, ok := named["name"].(string); ok {
					key = name
				}
			}
			out["["+key+"]"] = entry
		}
		return out, true
	}
	return nil, false
}

// named reports whether a value is a list whose entries have names.
func named(v any) bool {
	list, ok := v.([]any)
	return ok && !slices.ContainsFunc(list, func(entry any) bool {
		fields, _ := entry.(map[string]any)
		name, _ := fields["name"].(string)
		return name == ""
	})
}

func join(path, key string) string {
	if path == "" || key[:min(1, len(key))] == "[" {
		return path + key
	}
	return path + "." + key
}

func changeOf(before, after any) Change {
	return changeOfPresence(before != nil, after != nil)
}

func scalar(v any) string {
	switch typed := v.(type) {
	case nil:
		return ""
	case string:
		return typed
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("compare %T: %v", v, err))
	}
	return string(data)
}

// union are the keys of both, sorted.
func union[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// namesOnly drops the values of settings.
func namesOnly(settings []Setting) []Setting {
	for i := range settings {
		settings[i].Old, settings[i].New = "", ""
	}
	return settings
}

// fields are the paths of settings.
func fields(settings []Setting) []string {
	out := []string{}
	for _, s := range settings {
		out = append(out, s.Field)
	}
	return out
}
