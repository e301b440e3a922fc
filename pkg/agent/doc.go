// Package agent executes one stage of a package on the host it runs on, or one interrupt, and says what came of it.
//
// It reads package format v1 (config.json) and keeps the invocation, the environment and the files on the host that existing
// NodeWright packages rely on: docs/compatibility.md names the contract. What it adds:
//
//   - Fencing: an execution that was made for another machine, or for a round that is over, changes nothing. A stage that was
//     completed in this round answers with its stored result. An interrupt excludes every other execution on the host.
//   - Results: which step, which exit code, which last lines, as JSON in the container's termination message.
//   - Real exit codes, whole files or none, bounded logs, and no more than three copies of a package.
//   - A last look at the node before an interrupt: cordoned, the same one, and no pod on it that may not stay; see NodeCheck.
//
// Its scope ends at one execution; when the checks run again to find drift is the reconciler's business.
//
// Everything that touches the host goes through pkg/adapter/host, so that tests use a scratch root and record commands. Beside
// that the package imports the standard library only.
package agent
