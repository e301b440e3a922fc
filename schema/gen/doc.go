// Command gen completes what controller-gen generates: it tightens the CustomResourceDefinitions where Go types of
// Kubernetes leave bounds open, and derives the JSON Schemas from them. Running it twice changes nothing.
package main
