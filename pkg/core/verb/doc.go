// Package verb is what people ask of a rollout with an annotation, `fleetwright.dev/<verb>`, on a NodeWright or on a node:
// its value, written and read in one place.
//
//	<token> [package=a,b] [stage=config] [node=n1,n2] [nodewright=x]
//
// The token is the request's identity: a token that was handled is not handled again, whatever follows it. It may import the
// API types.
package verb
