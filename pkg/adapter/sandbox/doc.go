// Package sandbox runs a part of this program in a process of its own that has nothing to lose: bounded memory and time, an empty
// environment, three descriptors, and, from a call of Confine on, no way to open a file or a connection or to start a program.
package sandbox
