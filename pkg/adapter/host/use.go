package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ModTime is when a file or directory was changed last, the zero time where it is not there.
func (r Root) ModTime(hostPath string) time.Time {
	p, err := r.linkPath(hostPath)
	if err != nil {
		return time.Time{}
	}
	info, err := os.Lstat(p)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Touch sets that time.
func (r Root) Touch(hostPath string, at time.Time) error {
	p, err := r.Path(hostPath)
	if err != nil {
		return err
	}
	return os.Chtimes(p, at, at)
}

// InUse says by what a directory of the host is in use, empty if by nothing that can be seen: a file system that is mounted on it
// or below, whose files would go with it, or a process whose working directory or program is there. A process is seen if it
// is one of this container or of the host itself, which needs the host's process IDs.
func (r Root) InUse(dir string) (string, error) {
	p, err := r.Path(dir)
	if err != nil {
		return "", err
	}
	inside := "/" + strings.TrimPrefix(strings.TrimPrefix(p, filepath.Clean(string(r))), "/")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("list mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && within(unescape(fields[4]), p) {
			return "a mount at " + unescape(fields[4]), nil
		}
	}
	links, err := filepath.Glob("/proc/[0-9]*/[ce][wx][de]") // cwd and exe
	if err != nil {
		return "", fmt.Errorf("list processes: %w", err)
	}
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && (within(at, p) || within(at, inside)) {
			return "process " + strings.Split(link, "/")[2], nil
		}
	}
	return "", nil
}

func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// unescape undoes how the kernel writes spaces and the like in mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
