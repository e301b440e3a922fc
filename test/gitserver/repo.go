package gitserver

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"time"
)

const (
	author = "Fleet Author"
	email  = "author@fleet.example"
)

// Change is one commit to make. Contents are by path; what is not named stays as it was.
type Change struct {
	// Branch to put the commit on. Default main.
	Branch string
	// Message of the commit.
	Message string
	// Files to write, by path.
	Files map[string]string
	// Links to make: path to link target, which is not checked.
	Links map[string]string
	// Submodules to record: path to commit.
	Submodules map[string]string
	// Delete names paths to remove.
	Delete []string
	// Orphan starts a new history: the commit has no parent and only these files. On a branch that exists it is a force push.
	Orphan bool
	// Parent resets the branch to this commit first. On a branch that is ahead of it it is a force push.
	Parent string
}

// CreateRepo makes an empty bare repository whose default branch is main and that accepts pushes over HTTP.
func (s *Server) CreateRepo(name string) error {
	dir := s.Path(name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make repository: %w", err)
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main"},
		{"config", "http.receivepack", "true"},
		{"config", "gc.auto", "0"}, // a repository is still while nobody talks to the server
		{"config", "receive.autogc", "false"},
	} {
		if _, err := s.git(dir, nil, args...); err != nil {
			return err
		}
	}
	return nil
}

// Commit writes files (path to content) on branch main and returns the commit's SHA.
func (s *Server) Commit(repo string, files map[string]string, message string) (string, error) {
	return s.Apply(repo, Change{Files: files, Message: message})
}

// Apply makes one commit and returns its SHA. Equal changes at equal times give equal commits.
func (s *Server) Apply(repo string, change Change) (string, error) {
	if change.Branch == "" {
		change.Branch = "main"
	}
	if change.Parent == "" && !change.Orphan {
		change.Parent, _ = s.Git(repo, "rev-parse", "--verify", "--quiet", "refs/heads/"+change.Branch) // none: first commit
	}
	sha, err := s.git(s.Path(repo), importStream(change), "fast-import", "--quiet", "--force")
	if err != nil {
		return "", err
	}
	return sha, nil
}

// Import feeds a stream of git fast-import, as one pack and without compressing it again: for repositories with much history.
func (s *Server) Import(repo string, stream io.Reader) error {
	_, err := s.git(s.Path(repo), stream, "-c", "fastimport.unpackLimit=1", "-c", "pack.compression=0", "fast-import", "--quiet", "--force")
	return err
}

// importStream words a change in the language of git fast-import, which needs no work tree.
func importStream(c Change) io.Reader {
	var b bytes.Buffer
	fmt.Fprintf(&b, "commit refs/heads/%s\nmark :1\ncommitter %s <%s> %d +0000\n", c.Branch, author, email, time.Now().Unix())
	writeData(&b, c.Message)
	if c.Parent != "" {
		fmt.Fprintf(&b, "from %s\n", c.Parent)
	}
	for _, path := range c.Delete {
		fmt.Fprintf(&b, "D %s\n", path)
	}
	writeEntries(&b, "100644", c.Files)
	writeEntries(&b, "120000", c.Links)
	for _, path := range slices.Sorted(maps.Keys(c.Submodules)) {
		fmt.Fprintf(&b, "M 160000 %s %s\n", c.Submodules[path], path)
	}
	b.WriteString("\nget-mark :1\n")
	return &b
}

func writeEntries(b *bytes.Buffer, mode string, entries map[string]string) {
	for _, path := range slices.Sorted(maps.Keys(entries)) {
		fmt.Fprintf(b, "M %s inline %s\n", mode, path)
		writeData(b, entries[path])
	}
}

func writeData(b *bytes.Buffer, text string) {
	fmt.Fprintf(b, "data %d\n%s\n", len(text), text)
}

// ForcePush moves a branch to any commit of the repository.
func (s *Server) ForcePush(repo, branch, commit string) error {
	_, err := s.Git(repo, "update-ref", "refs/heads/"+branch, commit)
	return err
}

// DeleteBranch removes a branch.
func (s *Server) DeleteBranch(repo, branch string) error {
	_, err := s.Git(repo, "update-ref", "-d", "refs/heads/"+branch)
	return err
}

// Tag puts a tag on a commit: annotated where message is set, lightweight otherwise.
func (s *Server) Tag(repo, tag, commit, message string) error {
	args := []string{"tag", tag, commit}
	if message != "" {
		args = []string{"tag", "-a", "-m", message, tag, commit}
	}
	_, err := s.Git(repo, args...)
	return err
}

// HashObject stores an object of a kind (commit, tag, tree, blob) byte by byte, without looking at what it says, and returns its SHA.
func (s *Server) HashObject(repo, kind string, content []byte) (string, error) {
	return s.git(s.Path(repo), bytes.NewReader(content), "hash-object", "-t", kind, "-w", "--stdin", "--literally")
}

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
