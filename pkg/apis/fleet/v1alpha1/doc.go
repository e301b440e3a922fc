// Package v1alpha1 holds the kinds of the group fleetwright.dev: Fleet (which repository drives this cluster), Package (an
// entry of the catalogue) and Ledger (the rollout decisions that cannot be derived again). It also spells our metadata
// keys, once. It imports the NodeWright kinds, whose words it shares, and nothing else of this module.
//
// +kubebuilder:object:generate=true
// +groupName=fleetwright.dev
package v1alpha1
