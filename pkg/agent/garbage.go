package agent

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// keepCopies is how many copy directories of a package stay on the host, and how many directories of interrupt markers: that of
	// this execution and the two that were used last before it.
	keepCopies = 3
	// keepLogged is how many versions of a package keep their logs.
	keepLogged = 5
	// foreignAge is how long what another NodeWright object of the same name left is kept. Whether its executions are over
	// is not known here, but none of them leaves its directory alone for that long.
	foreignAge = 24 * time.Hour
)

// leftover is a directory of an earlier execution.
type leftover struct {
	path string
	// owner is the NodeWright object, number its round.
	owner  string
	number int64
	used   time.Time
}

// collect removes what earlier rounds of this package left on the host. Nothing depends on it, so what goes wrong is only logged.
// The package's lock is held: no execution of it is at work.
func (s *stage) collect() {
	err := errors.Join(s.touch(), s.collectCopies(keepCopies), s.collectMarkers(), s.collectLogs())
	if err != nil {
		s.logf("warning: clean up: %v", err)
	}
}

// touch notes that the copy directory is in use.
func (s *stage) touch() error { return s.Root.Touch(s.copyDir, s.Now()) }

// collectCopies removes copy directories beyond the newest, this one counted.
func (s *stage) collectCopies(keep int) error {
	dir := path.Dir(s.copyDir)
	own, ok := s.copyOf(s.copyDir)
	if !ok { // not where a reconciler puts it: what lies beside it is not ours
		return nil
	}
	return s.remove(dir, own, keep, s.copyOf)
}

// copyName is what follows the package's name: version, UID of the NodeWright, round. Names end with a letter and versions have
// all three numbers before a hyphen, so the directory of a package whose name is longer does not match.
var copyName = lazily(`^(?:v?\d+(?:\.\d+)?|v?\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(\d+)$`)

func (s *stage) copyOf(p string) (leftover, bool) {
	rest, ok := strings.CutPrefix(path.Base(p), s.Settings.Resource.Package+"-")
	found := copyName().FindStringSubmatch(rest)
	if !ok || found == nil {
		return leftover{}, false
	}
	number, err := strconv.ParseInt(found[2], 10, 64)
	return leftover{path: p, owner: found[1], number: number, used: s.Root.ModTime(p)}, err == nil
}

// collectMarkers removes markers of interrupts of earlier rounds: they keep commands from running twice in theirs.
func (s *stage) collectMarkers() error {
	dir := path.Join(s.Settings.StateDir, "interrupts", "flags")
	own, ok := s.markersOf(path.Join(dir, s.Settings.Resource.ID))
	if !ok {
		return nil
	}
	return s.remove(dir, own, keepCopies, s.markersOf)
}

func (s *stage) markersOf(p string) (leftover, bool) {
	r, err := parseResource(path.Base(p))
	if err != nil || r.Package != s.Settings.Resource.Package {
		return leftover{}, false
	}
	return leftover{path: p, owner: r.Owner, number: r.Number, used: s.Root.ModTime(p)}, true
}

// remove keeps the execution's own directory and, of those that were used before, the newest.
func (s *stage) remove(dir string, own leftover, keep int, parse func(string) (leftover, bool)) error {
	names, err := s.Root.Names(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	var list []leftover
	for _, name := range names {
		l, ok := parse(path.Join(dir, name))
		if ok && l.path != own.path && (l.owner != own.owner || l.number < own.number) {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b leftover) int { return b.used.Compare(a.used) })
	var errs []error
	for _, l := range list[min(keep-1, len(list)):] {
		if s.over(l, own) {
			errs = append(errs, s.discard(l.path))
		}
	}
	return errors.Join(errs...)
}

// over: no execution may use the directory again. The fence refuses rounds of this NodeWright that have ended.
func (s *stage) over(l, own leftover) bool {
	fenced := l.owner == own.owner && s.Settings.Round != nil
	return fenced || s.Now().Sub(l.used) > foreignAge
}

func (s *stage) discard(dir string) error {
	by, err := s.Root.InUse(dir)
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	if by != "" {
		s.logf("%s of an earlier round stays: it is in use by %s", dir, by)
		return nil
	}
	if err := s.Root.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	s.logf("removed %s of an earlier round", dir)
	return nil
}

// collectLogs keeps the logs of the newest versions. Interrupts keep theirs by the name and version that the NodeWright uses.
func (s *stage) collectLogs() error {
	r := s.Settings.Resource
	err := s.collectLogsOf(s.cfg.Name, s.cfg.Version)
	if r.Package == s.cfg.Name {
		return err
	}
	return errors.Join(err, s.collectLogsOf(r.Package, r.Version))
}

// logVersion is a version of config.json, or of a NodeWright, where 1 and v1.2 are allowed.
var logVersion = lazily(`^v?\d+(\.\d+){0,2}([-+][0-9A-Za-z.+-]+)?$`)

func (s *stage) collectLogsOf(name, own string) error {
	dir := path.Join(s.Settings.LogDir, name)
	names, err := s.Root.Names(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == own || !logVersion().MatchString(n) })
	slices.SortFunc(names, func(a, b string) int {
		return s.Root.ModTime(path.Join(dir, b)).Compare(s.Root.ModTime(path.Join(dir, a)))
	})
	var errs []error
	for _, name := range names[min(keepLogged-1, len(names)):] {
		errs = append(errs, s.discard(path.Join(dir, name)))
	}
	return errors.Join(errs...)
}
