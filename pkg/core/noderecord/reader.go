package noderecord

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// mostTexts bounds what a Reader remembers: beyond it the Reader begins anew. A fleet at rest has a few texts for each
// NodeWright, a rollout adds some for each node at work.
const mostTexts = 1024

// Reader decodes many records as Decode does, and lets those that say the same share it: after a rollout, thousands of
// nodes name the same packages in the same words. That costs one decoding instead of thousands, and a reader of all of
// them finds the packages in the processor's cache. Who changes the packages of a record clones it first.
//
// The zero Reader is ready for use. It is not safe for concurrent use.
type Reader struct {
	packages map[string]sharedPackages // by their text
	newest   uint32                    // number of shared packages
	words    map[string]string
}

type sharedPackages struct {
	number   uint32
	packages map[string]Package
}

// Read decodes one annotation value; see Decode.
func (r *Reader) Read(value string, node types.UID) (Record, bool, error) {
	t, found, err := decodeText(value, node)
	if err != nil || !found {
		return Record{}, false, err
	}
	shared, known := r.packages[string(t.Packages)]
	if !known {
		return r.readFirst(value, node, t.Packages)
	}
	if err := t.Record.check(); err != nil { // its packages were checked when they were first read
		return Record{}, false, fmt.Errorf("read record: %w", err)
	}
	t.Record.Packages, t.Record.Shared = shared.packages, shared.number
	return r.inWords(t.Record), true, nil
}

// readFirst decodes the whole record, and remembers its packages.
func (r *Reader) readFirst(value string, node types.UID, packages json.RawMessage) (Record, bool, error) {
	rec, found, err := Decode(value, node)
	if err != nil || !found {
		return Record{}, false, err
	}
	if r.packages == nil || len(r.packages) >= mostTexts {
		r.packages = map[string]sharedPackages{}
	}
	r.newest++
	rec.Shared = r.newest
	r.packages[string(packages)] = sharedPackages{r.newest, rec.Packages}
	return r.inWords(rec), true, nil
}

func (r *Reader) inWords(rec Record) Record {
	rec.NodeWright = types.UID(r.Word(string(rec.NodeWright)))
	rec.Compartment = r.Word(rec.Compartment)
	return rec
}

// Word returns an equal string, the same one each time: a comparison of two that are the same needs no look at them.
func (r *Reader) Word(s string) string {
	if word, known := r.words[s]; known {
		return word
	}
	if r.words == nil || len(r.words) >= mostTexts {
		r.words = map[string]string{}
	}
	r.words[s] = s
	return s
}

// Size is how many texts and words the Reader remembers, at most 1024 of each.
func (r *Reader) Size() int { return len(r.packages) + len(r.words) }
