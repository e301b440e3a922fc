package git

import (
	"context"
	"errors"
	"io"
)

// smallPack is what every fetch may hold without waiting for its turn, in bytes.
const smallPack = 8 << 20

// oneLarge is taken by the fetch of a large pack until it is unpacked, so that of many at once only one needs much memory. It is
// global to the process, as the memory is. Small fetches, and servers that do not answer, hold up nobody.
var oneLarge = make(chan struct{}, 1)

// turn is a fetch's right to more memory than smallPack, which it begins without.
type turn struct {
	of    *remote
	taken bool
}

func (t *turn) end() {
	if t.taken {
		<-oneLarge
	}
}

// readAll waits for a turn once the pack turns out to be large.
func (t *turn) readAll(ctx context.Context, from io.Reader) (*pieces, error) {
	pack := &pieces{}
	_, err := io.CopyN(pack, from, smallPack)
	if errors.Is(err, io.EOF) {
		return pack, nil
	}
	if err != nil {
		return nil, err
	}
	t.of.enter("waiting for another large fetch")
	select {
	case oneLarge <- struct{}{}:
		t.taken = true
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	t.of.enter(stageFetch)
	_, err = io.Copy(pack, from)
	return pack, err
}
