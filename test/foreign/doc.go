// Package foreign builds programs of modules that are none of ours, such as Kubernetes and Gitea, once into a cache, for tests and
// the demo: nobody who uses the product downloads or compiles them. It needs the go command and a checkout of this repository
// around the working directory.
package foreign
