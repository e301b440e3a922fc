// Package chart renders the Helm chart with Helm's own library and applies it to an API server, for the demo and for tests
// that must run under the roles that are shipped. It does what `helm install` does, without release records: CRDs that are
// missing first, then the templates in Helm's order.
package chart
