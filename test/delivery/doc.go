// Package delivery holds the tests of the delivery half: real git servers, a real API server under the chart's own roles, the
// process's own wiring. Of the rollout only the statuses of NodeWrights are played.
package delivery
