// Package cluster observes a Kubernetes cluster and acts on it: nodes, Jobs, pods, records, the ledger, statuses and
// events. It translates between the API and the types of the pure core and decides nothing: what is observed becomes a
// plan.Input, and a plan.Decision is carried out as written, part by part, in the documented order.
//
// Three rules hold for everything that is written here:
//
//   - A node is only ever changed by one JSON patch that tests its UID and the whole record that the decision was made
//     from, and that touches our own keys, `spec.unschedulable` and nothing else. A failed test is a value
//     (report.Outcome.Conflict), not an error: the next pass decides anew.
//   - A view is never older than our own last write: Observer.Observe waits until the caches have seen it.
//   - What exists already (a Job, a ConfigMap, a snapshot) is as good as created: names are derived from content and
//     identity, never from the clock or chance.
package cluster
