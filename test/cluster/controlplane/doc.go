// The controlplane program is a whole Kubernetes control plane in one process: etcd without fsync, kube-apiserver and,
// when asked for, kube-controller-manager and kube-scheduler. It is made for tests and the demo on one machine, never
// for anything that must be kept.
//
// It lives in a module of its own because k8s.io/kubernetes must be in nobody's go.mod who only wants the product, and
// it is executed, never imported, because feature gates and configz are process globals. The launcher is the package
// github.com/fleetwright/fleetwright/test/cluster.
//
// The state directory (-dir) holds:
//
//	admin.kubeconfig   cluster-admin by bearer token; the address is the one the kernel chose
//	audit.jsonl        the API server's audit log, one event a line
//	pki/               CA, serving certificate, keys and tokens; reused by the next start
//	etcd/              the data; reused by the next start
//	port               the port of the last start; the next start takes the same one
//
// On standard output it prints "ready https://127.0.0.1:PORT" once /readyz answers and the other components run. It
// stops on SIGTERM, on SIGINT and, with -exit-with-stdin, when its standard input ends (its parent is gone).
//
// Its own tests: go test -trimpath -vet=off . in this directory. Without -trimpath everything is compiled once more,
// and vet looks at all of Kubernetes first.
package main
