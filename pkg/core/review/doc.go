// Package review decides what a reviewer of pull requests does: which of them are planned, what their merge would be, and which
// comments have to be written, changed or removed for it.
package review
