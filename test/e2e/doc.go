// Package e2e plays the whole product on two real nodes: a commit is pushed, the shipped reconciler delivers it, kubelets and
// containerd run the shipped agent and packages that `fleetwright package build` made, and files, services and boots of the
// machines really change. See test/realnode for the machines. It needs root and what `make e2e` says; elsewhere it skips.
package e2e
