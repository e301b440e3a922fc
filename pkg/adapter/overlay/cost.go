package overlay

import (
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// cost is an upper bound of what a build makes of a directory, counted without building it. A few hundred bytes are enough to
// ask kustomize for more than any machine has: two bases that hold the same two bases, and so on; a patch that copies an
// object into itself, again and again. kustomize has no limit of its own and cannot be stopped.
//
//	a: resources [b1, b2]       b1, b2: resources [c1, c2]       ... 20 levels: a million objects
type cost struct {
	dirs    int           // kustomization files read, each as often as it is reached
	objects int           // in all
	ids     map[objID]int // by kind and declared name
	values  int           // YAML values of the objects
	bytes   int           // of the values' text
	work    int           // patches applied to objects
}

type objID struct{ kind, name string }

// volume is what a value takes, aliases expanded.
type volume struct{ values, bytes int }

func measure(nodes ...*yaml.Node) volume {
	var out volume
	for _, node := range nodes {
		node = resolve(node)
		below := measure(node.Content...)
		out.values, out.bytes = out.values+1+below.values, out.bytes+len(node.Value)+below.bytes
	}
	return out
}

func (c *cost) grow(v volume, times int) {
	c.values, c.bytes = c.values+v.values*times, c.bytes+v.bytes*times
}

// double is what copying an object into itself may do at most; text that is put into text is escaped, too.
func (c *cost) double() { c.values, c.bytes = c.values*2, c.bytes*4 }

func (c *cost) declare(doc *yaml.Node) {
	if items := listItems(doc); items != nil {
		for _, item := range items.Content {
			c.declare(resolve(item))
		}
		return
	}
	c.objects++
	c.ids[objID{text(doc, "kind"), text(doc, "metadata", "name")}]++
	c.grow(measure(doc), 1)
}

func (c *cost) include(base cost) {
	c.dirs, c.objects, c.work = c.dirs+base.dirs, c.objects+base.objects, c.work+base.work
	c.values, c.bytes = c.values+base.values, c.bytes+base.bytes
	for id, n := range base.ids {
		c.ids[id] += n
	}
}

// excess says in words which limit the cost exceeds; empty if it keeps all.
func (c *cost) excess() string {
	for _, limit := range []struct {
		have, most int
		words      string
	}{
		{c.dirs, maxDirs, "reads more than 1000 directories, bases counted as often as they are named"},
		{c.objects, maxObjects, "has more than 500 objects, bases counted as often as they are named"},
		{c.values, maxBuilt, "may come to more than 400000 YAML values"},
		{c.bytes, maxBuiltBytes, "may come to more than 64 MiB"},
		{c.work, maxWork, "applies patches to more than 10000 objects, each counted once for each patch"},
	} {
		if limit.have > limit.most {
			return limit.words
		}
	}
	return ""
}

// reached is one entry of resources, bases or components.
type reached struct {
	node      *yaml.Node
	file      *source // nil for a directory
	dir       string
	component bool
}

// weigher adds up the cost of an overlay, bases first.
type weigher struct {
	*scan
	done    map[string]cost
	copies  copies
	renamed bool // kinds or names of objects may change during the build
	over    bool
}

// weigh refuses an overlay that may cost too much.
func (s *scan) weigh() {
	w := &weigher{scan: s, done: map[string]cost{}, renamed: s.renames(), copies: s.allCopies()}
	w.directory(s.byDir[s.root])
}

// renames says whether a patch or a replacement may change what names an object.
func (s *scan) renames() bool {
	for _, k := range s.kustomizations {
		if slices.ContainsFunc(k.replacements, replacement.renames) || slices.ContainsFunc(k.patches, (*patch).renames) {
			return true
		}
	}
	return false
}

func (p *patch) renames() bool {
	if _, options := get(p.entry, "options"); options != nil {
		return true
	}
	return slices.ContainsFunc(p.operations(), func(op *yaml.Node) bool {
		path := text(op, "path")
		return path == "/kind" || path == "/apiVersion" || path == "/metadata" || path == "/metadata/name"
	})
}

func (w *weigher) directory(k *kustomization) cost {
	if c, ok := w.done[k.dir]; ok {
		return c
	}
	c := cost{ids: map[objID]int{}}
	w.build(k, &c)
	w.done[k.dir] = c
	return c
}

// build follows kustomize: resources, then components, then the directory's own changes to all of them.
func (w *weigher) build(k *kustomization, c *cost) {
	c.dirs++
	for _, r := range k.reached {
		switch {
		case w.over || r.component:
			continue
		case r.file != nil:
			for _, doc := range r.file.docs {
				c.declare(doc)
			}
		default:
			c.include(w.directory(w.byDir[r.dir]))
		}
		w.check(c, at(k.path, r.node))
	}
	for _, r := range k.reached {
		if r.component && !w.over {
			w.build(w.byDir[r.dir], c)
			w.check(c, at(k.path, r.node))
		}
	}
	w.changes(k, c)
}

func (w *weigher) changes(k *kustomization, c *cost) {
	for _, p := range k.patches {
		if !w.over {
			w.patched(p, c)
		}
	}
	for _, field := range k.everywhere {
		c.grow(measure(field), c.objects)
		w.check(c, at(k.path, field))
	}
	for _, r := range k.replacements {
		w.replaced(r, c)
	}
}

func (w *weigher) patched(p *patch, c *cost) {
	n := len(p.docs)
	if p.target != nil {
		n = w.matches(p.target, c)
	}
	c.work += n + 1
	c.grow(measure(p.docs...), n)
	for _, op := range p.operations() {
		if text(op, "op") == "copy" {
			c.double()
			w.check(c, p.at)
		}
	}
	w.check(c, p.at)
}

// matches counts the objects that a target may select. Their labels are left out, and so is what was renamed.
func (w *weigher) matches(target *yaml.Node, c *cost) int {
	if w.renamed {
		return c.objects
	}
	kind, name := pattern(text(target, "kind")), pattern(text(target, "name"))
	n := 0
	for id, count := range c.ids {
		if kind(id.kind) && (name(id.name) || w.mayBecome(id.name, text(target, "name"))) {
			n += count
		}
	}
	return n
}

// mayBecome says whether prefixes and suffixes can turn a declared name into one that fits.
func (w *weigher) mayBecome(name, wanted string) bool {
	if !w.affixes {
		return false
	}
	return regexp.QuoteMeta(wanted) != wanted || strings.Contains(wanted, name)
}

// pattern reads a target's field as kustomize does: a regular expression for the whole value; empty fits everything, and what
// is no expression nothing.
func pattern(text string) func(string) bool {
	if text == "" {
		return func(string) bool { return true }
	}
	expression, err := regexp.Compile("^(?:" + text + ")$")
	if err != nil {
		return func(string) bool { return false }
	}
	return expression.MatchString
}

// check reports the first limit that is exceeded, at the place that exceeds it, and ends the count.
func (w *weigher) check(c *cost, p Position) {
	words := c.excess()
	if words == "" || w.over {
		return
	}
	w.over = true
	w.report(problem(codeTooLarge, p, "up to here, the overlay %s", words))
}
