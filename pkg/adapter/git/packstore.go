package git

import (
	"errors"
	"io"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"
)

// unpackedCache is what a packStore keeps of what it has unpacked, in bytes: directories and the bases of deltas, mostly.
const unpackedCache = 4 << 20

// packStore reads objects out of a pack that stays as it was sent: what nobody reads is never kept unpacked. It is safe for concurrent
// use, which the library's reader of packs is not.
type packStore struct {
	*memory.Storage // what a store has beside these; it stays empty
	mu              sync.Mutex
	pack            *packfile.Packfile
}

// newPackStore computes the hash of every object, and keeps only where each begins.
func newPackStore(pack *pieces) (*packStore, error) {
	index := &idxfile.Writer{}
	parser, err := packfile.NewParser(packfile.NewScanner(pack.reader()), index)
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(); err != nil {
		return nil, err
	}
	places, err := index.Index()
	if err != nil {
		return nil, err
	}
	file := packFile{pack.reader()}
	return &packStore{
		Storage: memory.NewStorage(),
		pack:    packfile.NewPackfileWithCache(places, nil, file, cache.NewObjectLRU(unpackedCache), 0),
	}, nil
}

// EncodedObject unpacks one object.
func (s *packStore) EncodedObject(kind plumbing.ObjectType, hash plumbing.Hash) (plumbing.EncodedObject, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, err := s.pack.Get(hash)
	if err != nil {
		return nil, err
	}
	if kind != plumbing.AnyObject && object.Type() != kind {
		return nil, plumbing.ErrObjectNotFound
	}
	return object, nil
}

// HasEncodedObject is nil if the pack holds the object.
func (s *packStore) HasEncodedObject(hash plumbing.Hash) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.pack.FindOffset(hash)
	return err
}

// EncodedObjectSize is the size of an object, which is not unpacked for it.
func (s *packStore) EncodedObjectSize(hash plumbing.Hash) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	offset, err := s.pack.FindOffset(hash)
	if err != nil {
		return 0, err
	}
	return s.pack.GetSizeByOffset(offset)
}

// pieces hold a pack in parts, so that it grows without being copied.
type pieces struct {
	parts [][]byte
	size  int64
}

const pieceSize = 1 << 20

// Write appends.
func (p *pieces) Write(b []byte) (int, error) {
	written := len(b)
	for len(b) > 0 {
		last := len(p.parts) - 1
		if last < 0 || len(p.parts[last]) == pieceSize {
			p.parts = append(p.parts, make([]byte, 0, p.nextSize()))
			last++
		}
		part := p.parts[last]
		if len(part) == cap(part) { // the first one began small
			part = append(make([]byte, 0, min(2*cap(part), pieceSize)), part...)
		}
		n := min(len(b), cap(part)-len(part))
		p.parts[last], b = append(part, b[:n]...), b[n:]
	}
	p.size += int64(written)
	return written, nil
}

// nextSize spares a small repository a large first piece.
func (p *pieces) nextSize() int {
	if len(p.parts) == 0 {
		return 16 << 10
	}
	return pieceSize
}

// ReadAt reads from a place.
func (p *pieces) ReadAt(b []byte, at int64) (int, error) {
	read := 0
	for read < len(b) && at < p.size {
		n := copy(b[read:], p.parts[at/pieceSize][at%pieceSize:])
		read, at = read+n, at+int64(n)
	}
	if read < len(b) {
		return read, io.EOF
	}
	return read, nil
}

func (p *pieces) reader() *io.SectionReader { return io.NewSectionReader(p, 0, p.size) }

var errReadOnly = errors.New("a pack in memory is only read")

// packFile is a pack as the library wants to have it: as a file.
type packFile struct{ *io.SectionReader }

// Name is empty: there is no file.
func (packFile) Name() string { return "" }

// Write fails.
func (packFile) Write([]byte) (int, error) { return 0, errReadOnly }

// Truncate fails.
func (packFile) Truncate(int64) error { return errReadOnly }

// Lock does nothing.
func (packFile) Lock() error { return nil }

// Unlock does nothing.
func (packFile) Unlock() error { return nil }

// Close does nothing.
func (packFile) Close() error { return nil }
