// The playground program puts everything that docs/getting-started.md needs on one machine, all of it real but the nodes: a Gitea with
// one user, a control plane with the chart installed, twelve simulated nodes with workloads, and the reconciler and the reviewer
// as processes under the chart's accounts. It writes what a shell needs to know into bin/playground.env.
//
//	playground                 start, and run until Ctrl-C
//	playground statuses REV    print the statuses of a commit of the work tree, as the forge has them
//	playground await REV CONTEXT STATE
//	                           wait until the commit has that status, and print it
//	playground comments N      print the comments of a pull request
package main
