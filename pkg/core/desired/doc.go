// Package desired turns a NodeWright, with the Packages that it refers to, into the exact package set of a node, and
// gives every package the hashes by which a change is recognised.
//
// What is put on a host counts: package names, versions, image or digest, env and configMap. Interrupts, dependencies,
// time limits and resources are carried along but are in no hash: they take effect at once and start nothing.
package desired
