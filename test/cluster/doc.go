// Package cluster starts a real Kubernetes control plane on this machine, for tests and the demo: kube-apiserver and
// etcd in a child process, with kube-scheduler and the controllers of Jobs, budgets and garbage collection where asked
// for. There are no kubelets; package simnode plays them.
//
// A test binary has one control plane and each test a namespace of its own:
//
//	func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{Controllers: true, Scheduler: true}) }
//
//	func TestDrain(t *testing.T) {
//		c := cluster.Shared(t)
//		ns := c.Namespace(t)
//		...
//	}
//
// The program (test/cluster/controlplane, a module of its own) is built once into a cache, see Build. Where
// KUBEBUILDER_ASSETS names a directory with etcd and kube-apiserver, those are used and nothing is built.
//
// What a test asserts on is the API server's own request log (Cluster.Audit), not the word of the code under test, and
// faults come from a proxy between the two (Cluster.Proxy). The package imports client-go, client-go's API modules and
// the standard library only.
package cluster
