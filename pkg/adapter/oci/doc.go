// Package oci makes container images from files, without Docker and without a registry, and writes them as OCI image layouts.
// Equal inputs give equal digests: entries are sorted, times and owners are fixed.
//
// The package is an adapter: it knows the image format and the library that writes it, and decides nothing.
package oci
