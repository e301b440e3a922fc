// Package webhook reads the requests that forges send when something happened: who sent it, what it is about, and whether
// it was signed with a secret.
//
// [Read] looks at headers and body and never at a secret. It treats every field of a body as one that may be missing, and of
// what it reads it believes nothing: the result says where to look. [Hook.Verify] compares in constant time.
//
// One provider has one way to sign. Nothing falls back to a weaker one.
//
// The package is part of the adapter for forges: it may import the core, and no other adapter.
package webhook
