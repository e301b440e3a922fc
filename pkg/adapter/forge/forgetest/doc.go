// Package forgetest is to forge what httptest is to http: servers that enforce the published request rules of each forge, and a
// contract that every provider keeps, against these servers and against real ones.
//
// A [Server] refuses what the real forge refuses: unknown paths and fields, wrong states, texts that are too long, transitions
// that its state machine does not have, a missing header, the 1001st row. It imports forge and nothing else of the module.
package forgetest
