// Package manifest turns the documents of an overlay build into typed, defaulted objects, or says what is wrong with them:
// all findings at once, in the words of the people who write the files. It gives the API server's own verdict without an
// API server: JSON Schema, then defaulting, then the CRDs' schema and CEL rules, then rules between objects. It reads no
// file and no cluster.
package manifest
