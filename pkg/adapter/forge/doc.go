// Package forge writes commit statuses to the place where a commit lives, and reads them back.
//
// A [Provider] speaks to one repository of one forge and decides nothing. [Reporter] keeps the statuses level-triggered: its
// caller says what each (commit, context) should show, and the Reporter compares, posts, retries and heals.
//
// Two providers exist: [GitNotes], which needs nothing but a git server, and [Gitea]. Comments, pull requests and webhook
// payloads get interfaces of their own, so that a provider implements only what its forge has.
//
// The package is an adapter: it may import the core and the client library of each forge, and no other adapter.
package forge
