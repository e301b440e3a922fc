// Package preview compares two desired states over nodes and says what the change from one to the other comes to: packages,
// consequences for nodes, batches, who would block, and what will not happen. It is the model of a plan on a pull request.
//
//	Make (preview.go)      everything, in order; model.go is what comes out
//	  compare.go           objects and packages, old and new; settings.go their other fields
//	  effects.go           what nodes have to do that they had not to do before
//	  world.go             NodeWrights, nodes and records that both states are seen on
//	  batches.go           the simulated rollout
//	  blocks.go            what is in the way now
//	  warnings.go          what a reviewer should look at twice
//
// No rule of the planner is repeated here: what is left to do on a node comes from plan.Survey, batches from simulate.Run.
// Values of env and configMap never leave this package: only the names of keys do. Words are in package report.
package preview
