package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"
)

const (
	awaitLimit = 5 * time.Minute
	poll       = 500 * time.Millisecond
)

// asker reads from the forge what the guide shows.
type asker struct {
	api  *gitea.Client
	user string
	repo string
}

// forgeFromEnv uses what bin/playground.env exports.
func forgeFromEnv() (*asker, error) {
	url, token := os.Getenv("FORGE_URL"), os.Getenv("FORGE_TOKEN")
	if url == "" || token == "" {
		return nil, fmt.Errorf("FORGE_URL and FORGE_TOKEN are not set: source bin/playground.env first")
	}
	api, err := gitea.NewClient(url, gitea.SetToken(token))
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &asker{api: api, user: os.Getenv("FORGE_USER"), repo: "fleet"}, nil
}

// hash asks git in the present directory what a revision is.
func hash(ctx context.Context, revision string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--verify", revision+"^{commit}").Output()
	if err != nil {
		return "", fmt.Errorf("find commit %s: run this in the work tree: %w", revision, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// newest are the statuses that count: the one with the highest id of each context.
func (a *asker) newest(commit string) (map[string]*gitea.Status, error) {
	rows, _, err := a.api.ListStatuses(a.user, a.repo, commit, gitea.ListStatusesOption{ListOptions: gitea.ListOptions{PageSize: 50}})
	if err != nil {
		return nil, fmt.Errorf("read statuses: %w", err)
	}
	out := map[string]*gitea.Status{}
	for _, row := range rows {
		if had := out[row.Context]; had == nil || had.ID < row.ID {
			out[row.Context] = row
		}
	}
	return out, nil
}

func (a *asker) statuses(ctx context.Context, revision string) error {
	commit, err := hash(ctx, revision)
	if err != nil {
		return err
	}
	all, err := a.newest(commit)
	if err != nil {
		return err
	}
	for name, s := range all {
		fmt.Printf("%-28s %-8s %s\n", name, s.State, s.Description)
	}
	return nil
}

// want is what await waits for.
type want struct{ revision, context, state string }

func (a *asker) await(ctx context.Context, w want) error {
	ctx, cancel := context.WithTimeout(ctx, awaitLimit)
	defer cancel()
	commit, err := hash(ctx, w.revision)
	if err != nil {
		return err
	}
	for {
		all, err := a.newest(commit)
		if err != nil {
			return err
		}
		s := all[w.context]
		if s != nil && string(s.State) == w.state {
			fmt.Printf("%-28s %-8s %s\n", w.context, s.State, s.Description)
			return nil
		}
		select {
		case <-ctx.Done():
			if s == nil {
				return fmt.Errorf("commit %s has no status %s after %s", commit[:12], w.context, awaitLimit)
			}
			return fmt.Errorf("%s of commit %s is %s after %s: %s", w.context, commit[:12], s.State, awaitLimit, s.Description)
		case <-time.After(poll):
		}
	}
}

func (a *asker) comments(_ context.Context, number string) error {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return fmt.Errorf("pull request %q is not a number", number)
	}
	all, _, err := a.api.ListIssueComments(a.user, a.repo, n, gitea.ListIssueCommentOptions{})
	if err != nil {
		return fmt.Errorf("read comments: %w", err)
	}
	for _, c := range all {
		fmt.Println(c.Body)
	}
	return nil
}
