// Package ask turns an operator's wish (retry, reset, rerun, pause, …) into the one annotation or label that asks for it, and
// says what will follow from it. It decides nothing: the planner computes what follows, and the reconciler does it.
package ask
