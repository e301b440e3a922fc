// Package forges makes the forge provider of a Fleet from its spec and its Secret. The delivery loop and the reviewer of pull
// requests share one value of it, so that they share the budget of each server. It may import adapters and API types.
package forges
