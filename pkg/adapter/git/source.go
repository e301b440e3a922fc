package git

import (
	"cmp"
	"strings"
	"time"
)

// DefaultTimeout bounds Resolve and Fetch, each on its own, where Source.Timeout is zero.
const DefaultTimeout = time.Minute

// Source says where a repository is, which ref of it is wanted, and what an attempt may cost.
type Source struct {
	// URL is https, ssh (also as user@host:path), http with AllowInsecureHTTP or without credentials, or a local path with
	// AllowLocal. It holds no password.
	URL string
	// Ref to follow. The zero value follows the server's HEAD.
	Ref Ref
	// Auth comes from AuthFromSecret; the zero value is anonymous.
	Auth Auth
	// Verify demands signatures: Fetch returns nothing that does not have them. Nil: none.
	Verify *Verify
	// Proxy for https and http. The zero value takes HTTPS_PROXY and HTTP_PROXY of the environment.
	Proxy Proxy
	// RecurseSubmodules reads submodules into the tree, if they are on the same server.
	RecurseSubmodules bool
	// AnonymousSubmodules asks for them without credentials: who wrote a commit that nobody has merged chooses which repositories
	// are read, and may not be one who may read them.
	AnonymousSubmodules bool
	// Timeout of Resolve and of Fetch. Default DefaultTimeout.
	Timeout time.Duration
	// Limits of a fetch and of its tree. Zero fields take the defaults.
	Limits Limits
	// AllowInsecureHTTP lets credentials go over http without TLS.
	AllowInsecureHTTP bool
	// AllowLocal lets URL be file:// or a path. For the demo and the command line only.
	AllowLocal bool

	spent *budget // of one Fetch, over all its conversations; nil: of each its own
}

// Ref names one commit. Where several fields are set the most exact wins: Commit, Name, SemVer, Tag, Branch, as in Flux.
type Ref struct {
	// Branch is a short name, for example main.
	Branch string
	// Tag is a short name, for example v1.2.3.
	Tag string
	// SemVer is a range over the repository's tags, for example ">=1.0.0 <2.0.0"; the highest tag in it is taken.
	SemVer string
	// Name is a full ref name, for example refs/pull/7/head.
	Name string
	// Commit is a full SHA-1. With Branch as well, that branch is searched where a server hands out no single commits.
	Commit string
}

// Limits bound what one fetch may cost. A zero field takes its default.
type Limits struct {
	// Transfer is the number of bytes that a server may send in one attempt. Default 64 MiB.
	Transfer int64
	// Unpacked is the size of all objects of the fetch together. Default 256 MiB.
	Unpacked int64
	// File is the size of one file that is read. Default 4 MiB.
	File int64
	// Files is the number of files of the tree; it may have four times as many directories, and a fetch about as many objects.
	// Default 50 000.
	Files int
	// Depth is the number of elements of the longest path. Default 64.
	Depth int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Transfer: cmp.Or(l.Transfer, 64<<20),
		Unpacked: cmp.Or(l.Unpacked, 256<<20),
		File:     cmp.Or(l.File, 4<<20),
		Files:    cmp.Or(l.Files, 50_000),
		Depth:    cmp.Or(l.Depth, 64),
	}
}

func (s Source) timeout() time.Duration { return cmp.Or(s.Timeout, DefaultTimeout) }

// Revision is one commit and how it was named.
type Revision struct {
	// Ref is the short name that was resolved: a branch, a tag, HEAD, or empty for a bare commit.
	Ref string
	// Commit is the full SHA-1.
	Commit string
	// FullName of the ref on the server, for example refs/heads/main; empty for a bare commit.
	FullName string
}

// String is Flux's form: main@sha1:…, v1.2.3@sha1:…, sha1:… for a bare commit; empty for the zero value.
func (r Revision) String() string {
	switch {
	case r.Commit == "":
		return ""
	case r.Ref == "":
		return "sha1:" + r.Commit
	}
	return r.Ref + "@sha1:" + r.Commit
}

// describe words a ref for a sentence.
func (r Ref) describe() string {
	switch {
	case r.Commit != "":
		return "commit " + r.Commit
	case r.Name != "":
		return "ref " + quote(r.Name)
	case r.SemVer != "":
		return "version range " + quote(r.SemVer)
	case r.Tag != "":
		return "tag " + quote(r.Tag)
	case r.Branch != "":
		return "branch " + quote(r.Branch)
	}
	return "HEAD"
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }
