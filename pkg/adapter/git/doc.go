// Package git turns a URL and a ref into the files of one commit. It lists the refs first, fetches one ref at depth 1 into
// memory, and reads files from the tree object: there is no checkout, no temporary work tree, no git binary, and nothing of
// the machine's or user's configuration (agent, ~/.ssh, ~/.gitconfig, netrc) is consulted, except HTTPS_PROXY, HTTP_PROXY and NO_PROXY
// for http and https. It decides nothing.
//
// A verifier of signatures finds the raw objects in Tree.RawCommit and Tree.RawTag.
package git
