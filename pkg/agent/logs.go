package agent

import (
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
)

// keepLogs is how many logs of a step stay on the host, for each of its two streams.
const keepLogs = 5

// stepLogs are the files on the host that keep a step's output; both are nil if they are not wanted or cannot be made.
type stepLogs struct{ out, err *os.File }

// openLogs makes <logs>/<package>/<version>/<step>-<time>.log and .err, after room was made for them. Logs are a convenience:
// a host whose disk is full gets its step all the same.
func (s *stage) openLogs(step Step) stepLogs {
	return s.Agent.openLogs(path.Join(s.Settings.LogDir, s.cfg.Name, s.cfg.Version), step.Name)
}

// interruptLogs are those of all commands of an interrupt: what a reboot printed is read on the host, if anywhere. An interrupt
// reads no config.json, so they lie by the name and version that the NodeWright uses.
func (a *Agent) interruptLogs() stepLogs {
	return a.openLogs(path.Join(a.Settings.LogDir, a.Settings.Resource.Package, a.Settings.Resource.Version), string(ModeInterrupt))
}

func (a *Agent) openLogs(dir, step string) stepLogs {
	if !a.Settings.WriteLogs {
		return stepLogs{}
	}
	name := path.Join(dir, step+"-"+a.Now().UTC().Format("2006-01-02-150405"))
	out, err := a.Root.Create(name + ".log")
	if err != nil {
		a.logf("warning: the host keeps no log of step %s: %v", step, pathless(err))
		return stepLogs{}
	}
	errs, err := a.Root.Create(name + ".err")
	if err != nil {
		a.logf("warning: the host keeps no error log of step %s: %v", step, pathless(err))
	}
	for _, suffix := range []string{".log", ".err"} {
		if err := prune(a.Root, dir, step, suffix); err != nil {
			a.logf("warning: prune logs: %v", err)
		}
	}
	return stepLogs{out, errs}
}

// prune removes all but the newest files of a step. Their names end with the time, so that they sort by age.
func prune(root host.Root, dir, step, suffix string) error {
	names, err := root.Names(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	mine := regexp.MustCompile(`^` + regexp.QuoteMeta(step) + `-\d{4}-\d\d-\d\d-\d{6}` + regexp.QuoteMeta(suffix) + `$`)
	names = slices.DeleteFunc(names, func(n string) bool { return !mine.MatchString(n) })
	slices.SortFunc(names, strings.Compare)
	for _, name := range names[:max(0, len(names)-keepLogs)] {
		if err := root.RemoveAll(path.Join(dir, name)); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}

func (l stepLogs) stdout() io.Writer { return writerOrNil(l.out) }
func (l stepLogs) stderr() io.Writer { return writerOrNil(l.err) }

// writerOrNil keeps a nil file from becoming a writer that is not nil.
func writerOrNil(f *os.File) io.Writer {
	if f == nil {
		return nil
	}
	return f
}

// note writes what runs before its output.
func (l stepLogs) note(command string) {
	if l.out != nil {
		_, _ = l.out.WriteString("$ " + command + "\n") // a convenience, as above
		_ = l.out.Sync()                                // the command may be a reboot
	}
}

func (l stepLogs) close() {
	for _, f := range []*os.File{l.out, l.err} {
		if f != nil {
			_ = f.Close() // a convenience, as above
		}
	}
}
