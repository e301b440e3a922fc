package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Clone is the work tree of the person who changes the fleet.
type Clone struct {
	dir string
	url string
}

// Status is one line of a commit's note.
type Status struct {
	Context     string `json:"context"`
	State       string `json:"state"`
	Description string `json:"description"`
}

// NewClone makes a work tree with the files, not yet committed.
func NewClone(ctx context.Context, dir, url string, files map[string]string) (*Clone, error) {
	c := &Clone{dir: dir, url: url}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make clone: %w", err)
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"config", "user.name", "A Platform Engineer"},
		{"config", "user.email", "engineer@example.com"},
		{"remote", "add", "origin", url},
	} {
		if _, err := c.git(ctx, args...); err != nil {
			return nil, err
		}
	}
	return c, c.write(files)
}

func (c *Clone) write(files map[string]string) error {
	for name, content := range files {
		path := filepath.Join(c.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// Files reads the work tree back.
func (c *Clone) Files() (map[string]string, error) {
	files, err := ReadRepository(c.dir)
	for name := range files {
		if strings.HasPrefix(name, ".git/") {
			delete(files, name)
		}
	}
	return files, err
}

// Push commits the changed files and pushes them; it returns the commit.
func (c *Clone) Push(ctx context.Context, message string, changed map[string]string) (string, error) {
	if err := c.write(changed); err != nil {
		return "", err
	}
	if _, err := c.git(ctx, "add", "--all"); err != nil {
		return "", err
	}
	if _, err := c.git(ctx, "commit", "--quiet", "--message", message); err != nil {
		return "", err
	}
	return c.pushHead(ctx)
}

// Revert takes back the newest n commits in one commit and pushes it.
func (c *Clone) Revert(ctx context.Context, n int, message string) (string, error) {
	if _, err := c.git(ctx, "revert", "--no-commit", fmt.Sprintf("HEAD~%d..HEAD", n)); err != nil {
		return "", err
	}
	if _, err := c.git(ctx, "commit", "--quiet", "--message", message); err != nil {
		return "", err
	}
	return c.pushHead(ctx)
}

func (c *Clone) pushHead(ctx context.Context) (string, error) {
	if _, err := c.git(ctx, "push", "--quiet", "origin", "main"); err != nil {
		return "", err
	}
	return c.git(ctx, "rev-parse", "HEAD")
}

// Statuses reads the statuses of a commit back from the server; none if there is no note yet.
func (c *Clone) Statuses(ctx context.Context, commit string) []Status {
	if _, err := c.git(ctx, "fetch", "--quiet", "origin", "+refs/notes/fleetwright:refs/notes/fleetwright"); err != nil {
		return nil
	}
	note, err := c.git(ctx, "notes", "--ref=fleetwright", "show", commit)
	if err != nil {
		return nil
	}
	var out []Status
	for _, line := range strings.Split(note, "\n") {
		var s Status
		if json.Unmarshal([]byte(line), &s) == nil {
			out = append(out, s)
		}
	}
	return out
}

func (c *Clone) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return strings.TrimSpace(string(out)), nil
}
