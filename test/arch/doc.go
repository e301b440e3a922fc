// Package arch holds the tests that keep the layers of this module apart and its code readable: who may import whom, what the
// pure core may not do, and how long a file or a function may be. Each failure names the rule that it breaks.
package arch
