// Package rollout tests the rollout half as a whole: the reconciler's loop, in this process and under the chart's roles,
// against a real API server with simulated kubelets. What must never happen is asserted on the API server's request log
// or by an independent watch, not on the word of the code under test. Tests named after field reports replay what went
// wrong elsewhere.
package rollout
