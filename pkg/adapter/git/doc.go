// Package git turns a URL and a ref into the files of one commit. It lists the refs first, fetches one ref at depth 1 into
// memory, and reads files from the tree object: there is no checkout, no temporary work tree, no git binary, and nothing of
// the machine's or user's configuration (agent, ~/.ssh, ~/.gitconfig, netrc) is consulted, except HTTPS_PROXY, HTTP_PROXY and NO_PROXY
// for http and https. It decides nothing.
//
//	Resolve, then Fetch    a ref that is followed: which commit is it now; read that one and no other
//	FetchAt                the head of a pull request (ref refs/pull/7/head, and the commit that the forge names), or the commit at
//	                       which it left its branch (ref refs/heads/main): a commit that is known, with the ref to search where a
//	                       server hands out no bare commits
//
// A Source without Verify demands no signature; so does a pull request's head, which nobody is about to apply.
package git
