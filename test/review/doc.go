// Package review tests the reviewer of pull requests on a real API server, under the chart's role, with a real git server and a forge that
// refuses what the real one refuses.
package review
