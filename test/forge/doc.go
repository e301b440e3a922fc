// Package forge runs a real forge, Gitea, on loopback ports, for tests and for the guide docs/getting-started.md. Gitea is built once
// from its Go module (in test/forge/gitea, a module of its own), which needs a C compiler for its SQLite.
package forge
