// Package schema embeds the JSON Schemas (draft 2020-12) of every kind that people write. They are generated from the
// CustomResourceDefinitions, so that an editor, the offline validation and the API server speak about the same fields. A
// JSON Schema alone accepts more than the API server (it knows no rule across fields), never less. It imports the API kinds.
package schema
