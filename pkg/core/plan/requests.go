package plan

import "k8s.io/apimachinery/pkg/types"

// RequestStatus is how far a request on a NodeWright is.
type RequestStatus struct {
	Verb string
	// Token of the request; the whole value if it cannot be met.
	Token string
	// Pending counts the targeted nodes on which it still has to be met.
	Pending int32
	// Nodes are the first of them, by name.
	Nodes []string
	// Problem says why it cannot be met; empty if it can.
	Problem string
}

// RefusedRequest is a verb annotation on a node that cannot be met.
type RefusedRequest struct {
	Node    string
	NodeUID types.UID
	// Value of the annotation.
	Value   string
	Message string
}
