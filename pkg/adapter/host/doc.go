// Package host is the machine that the agent works on, seen through the directory at which its root is mounted: files, locks,
// identity and commands. Paths given to it are the host's own; symbolic links are followed as the host would follow them, so an
// absolute link never leads into the agent's container.
//
// The package is an adapter: it decides nothing and imports the standard library only.
package host
