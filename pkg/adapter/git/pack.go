package git

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// unpack makes a pack's objects readable. Their sizes are added up before anything is kept, so that a small pack cannot unfold into
// more memory than the limit.
func (r *remote) unpack(pack *pieces) (*packStore, error) {
	limits := r.source.Limits.withDefaults()
	most := objectsPerFile*limits.Files + moreObjects
	total, objects, err := packSize(pack.reader(), r.source.spent.unpacked, most)
	if errors.Is(err, errLargeObject) {
		return nil, failure(ReasonTooLarge, "the commit of %s holds a file of more than %s; take it out of the repository", r.name, size(maxObject))
	}
	if err != nil {
		return nil, r.damaged(err)
	}
	if objects > most {
		return nil, failure(ReasonTooLarge, "the commit of %s consists of more than %d objects; split the repository or raise the limit", r.name, most)
	}
	if total > r.source.spent.unpacked {
		return nil, failure(ReasonTooLarge, "the commit of %s unpacks to more than %s; split the repository or raise the limit", r.name, size(limits.Unpacked))
	}
	r.source.spent.unpacked -= total
	store, err := newPackStore(pack)
	if err != nil {
		return nil, r.damaged(err)
	}
	return store, nil
}

func (r *remote) damaged(err error) *Error {
	return failure(ReasonPackDamaged, "what %s sent is cut off or damaged; it is fetched again", r.name).because(err)
}

// objectsPerFile and moreObjects bound the objects of a pack: each file is a blob, and its directories, the commit and some
// history are more. Objects without content cost memory, too.
const (
	objectsPerFile = 4
	moreObjects    = 1000
)

// maxObject bounds one object, read or not, in bytes: to learn its hash it has to be held as a whole. What does not compress meets the
// limit of the transfer first.
const maxObject = 64 << 20

var errLargeObject = errors.New("object too large")

// packSize is the number of a pack's objects and what they add up to once deltas are applied. It stops soon after a limit.
func packSize(pack io.Reader, limit int64, most int) (total int64, objects int, err error) {
	scanner := packfile.NewScanner(pack)
	_, count, err := scanner.Header()
	if err != nil || int64(count) > int64(most) {
		return 0, int(count), err
	}
	for range count {
		header, err := scanner.NextObjectHeader()
		if err != nil {
			return 0, 0, err
		}
		if header.Length > maxObject {
			return 0, 0, errLargeObject
		}
		if total += header.Length; header.Length < 0 || total > limit {
			return limit + 1, int(count), nil // before the object is inflated
		}
		grown, err := deltaSize(scanner, header.Type)
		if err != nil {
			return 0, 0, err
		}
		if grown > maxObject {
			return 0, 0, errLargeObject
		}
		if total += grown; total > limit {
			return limit + 1, int(count), nil
		}
	}
	return total, int(count), nil
}

// deltaSize reads one object and returns the size of what a delta makes; 0 for an object that is no delta.
func deltaSize(scanner *packfile.Scanner, kind plumbing.ObjectType) (int64, error) {
	head := &bytes.Buffer{}
	if _, _, err := scanner.NextObject(&capped{buffer: head, left: 2 * binary.MaxVarintLen64}); err != nil {
		return 0, err
	}
	if !kind.IsDelta() {
		return 0, nil
	}
	if _, err := binary.ReadUvarint(head); err != nil { // the size of the base comes first, in the same form
		return 0, deltaError(err)
	}
	target, err := binary.ReadUvarint(head)
	if err != nil || target > 1<<40 {
		return 0, deltaError(err)
	}
	return int64(target), nil
}

func deltaError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("delta header: %w", err)
}
