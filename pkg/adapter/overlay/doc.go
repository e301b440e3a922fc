// Package overlay builds one directory of a repository with kustomize, entirely in memory. Before kustomize sees anything,
// every reachable kustomization file is read against a list of allowed fields and every path in it is checked, because
// kustomize itself fetches remote bases in spite of all its options. Only files that the scan reached exist for the build.
//
// Locate answers where a value of a built object is written, also through patches: it builds once more with every value
// replaced by a mark, and reads the marks.
package overlay
