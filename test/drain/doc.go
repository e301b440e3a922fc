// Package drain holds the planner's choice of the pods that have to leave a node against that of `kubectl drain`.
package drain
