package git

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLargePacksTakeTurns: a small one does not wait, and who waits does not wait for ever.
func TestLargePacksTakeTurns(t *testing.T) {
	begin := func() *turn { return &turn{of: newRemote(Source{}, endpoint{})} }
	large := func() *bytes.Reader { return bytes.NewReader(make([]byte, smallPack+pieceSize)) }
	first, second := begin(), begin()
	pack, err := first.readAll(t.Context(), large())
	require.NoError(t, err)
	require.EqualValues(t, smallPack+pieceSize, pack.size)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = second.readAll(ended, large())
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "waiting for another large fetch", second.of.stage())
	second.end()
	_, err = begin().readAll(ended, bytes.NewReader(make([]byte, smallPack-1)))
	require.NoError(t, err)

	first.end()
	third := begin()
	_, err = third.readAll(t.Context(), large())
	require.NoError(t, err)
	third.end()
}

func TestPiecesAreWhatWasWritten(t *testing.T) {
	var want []byte
	p := &pieces{}
	for i := range 300 {
		part := bytes.Repeat([]byte{byte(i)}, 7*i+1)
		want = append(want, part...)
		n, err := p.Write(part)
		require.NoError(t, err)
		require.Len(t, part, n)
	}
	_, err := p.Write(bytes.Repeat([]byte("x"), 3*pieceSize))
	require.NoError(t, err)
	want = append(want, bytes.Repeat([]byte("x"), 3*pieceSize)...)
	got := make([]byte, len(want))
	_, err = p.reader().ReadAt(got, 0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
	one := make([]byte, 3)
	_, err = p.reader().ReadAt(one, pieceSize-1)
	require.NoError(t, err)
	require.Equal(t, want[pieceSize-1:pieceSize+2], one)
}
