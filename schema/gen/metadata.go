package main

// metadata is Kubernetes' ObjectMeta, whose fields no CRD lists. What only the API server sets is here too: an object that
// was read from a cluster stays valid.
func metadata() map[string]any {
	return map[string]any{
		"type":                 "object",
		"description":          "Name, labels and annotations of the object.",
		"required":             []string{"name"},
		"additionalProperties": false,
		"properties": map[string]any{
			"name":                       word("The object's name: lower-case letters, digits, hyphens and dots. Required.", "string"),
			"namespace":                  word("The namespace, for kinds that have one.", "string", "null"),
			"labels":                     stringMap("Labels: short values that selectors find."),
			"annotations":                stringMap("Annotations: values that no selector looks at."),
			"finalizers":                 list("Finalizers hold the deletion back until each is removed.", map[string]any{"type": "string"}),
			"ownerReferences":            list("Objects whose deletion deletes this one.", map[string]any{"type": "object"}),
			"generateName":               word("Not used: objects from a repository have a name.", "string", "null"),
			"uid":                        word("Set by the API server.", "string", "null"),
			"resourceVersion":            word("Set by the API server.", "string", "null"),
			"generation":                 word("Set by the API server.", "integer", "null"),
			"creationTimestamp":          word("Set by the API server.", "string", "null"),
			"deletionTimestamp":          word("Set by the API server.", "string", "null"),
			"deletionGracePeriodSeconds": word("Set by the API server.", "integer", "null"),
			"managedFields":              list("Set by the API server.", map[string]any{"type": "object"}),
			"selfLink":                   word("Not used any more.", "string", "null"),
		},
	}
}

func word(description string, types ...string) map[string]any {
	out := map[string]any{"description": description, "type": types}
	if len(types) == 1 {
		out["type"] = types[0]
	}
	return out
}

func stringMap(description string) map[string]any {
	out := word(description, "object", "null")
	out["additionalProperties"] = map[string]any{"type": []string{"string", "null"}}
	return out
}

func list(description string, items map[string]any) map[string]any {
	out := word(description, "array", "null")
	out["items"] = items
	return out
}
