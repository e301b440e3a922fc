// Command demo shows the main job on one machine: a git push rolls a host change over a fleet.
//
// It starts a real control plane, 24 simulated nodes with workloads, a real git server and the real reconciler under the
// roles of the Helm chart; then it pushes five commits and prints what happens. A witness of its own watches nodes and pods
// all the time: a broken ceiling or a disturbed training pod ends the demo with a non-zero exit code.
//
//	make demo                      the story, a few minutes, exit code 0 if everything went as expected
//	make demo ARGS=--keep          leaves everything running at the end and prints the kubeconfig
//	make demo ARGS=--chaos=5s      kills the reconciler (SIGKILL) every five seconds; the end has to be the same
package main
