// Package gitserver runs real git servers inside one process, for tests and for the demo: git's own http-backend behind
// net/http/cgi and git-upload-pack behind an SSH server, on loopback ports that the kernel chooses. It needs the git binary
// on the machine. It imports nothing of the product.
package gitserver
