// Package delivery joins the delivery half of the reconciler to its adapters: git, overlay, manifest, the API server and the
// forges. It only wires, and is a package of its own so that tests against real servers use the very wiring of the process.
package delivery
