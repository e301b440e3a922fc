// Package confined builds and validates what a pull request says in a process of its own, which holds no credential and can reach
// nothing. Parent and child speak JSON over the child's standard input and output: the child asks for files by name, and ends with
// its result. It is the very code of a delivery, with nothing around it.
package confined
