package mvcc

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"berth/internal/codec"
)

// A snapshot file is a sequence of pieces. A piece is its length and that many bytes, which are one value.

type pieceWriter struct{ w io.Writer }

func (p pieceWriter) write(piece []byte) error {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(piece)))
	_, err := p.w.Write(length[:n])
	if err != nil {
		return err
	}
	_, err = p.w.Write(piece)
	return err
}

func (p pieceWriter) encode(v any) error {
	b, err := codec.Encode(v)
	if err != nil {
		return err
	}
	return p.write(b)
}

type pieceReader struct{ r *bufio.Reader }

const (
	maxPiece  = 1 << 30 // bytes: more than any chunk of rows has
	trustStep = 1 << 20 // bytes that are allocated before that many have been read
)

// readInto returns the next piece, in the memory of b if that is enough. It allocates for a length only as
// far as bytes follow.
func (p pieceReader) readInto(b []byte) ([]byte, error) {
	n, err := binary.ReadUvarint(p.r)
	if err != nil {
		return nil, err
	}

	if n > maxPiece {
		return nil, fmt.Errorf("a piece of %d bytes", n)
	}

	b = b[:0]
	for uint64(len(b)) < n {
		have := len(b)
		b = slices.Grow(b, int(min(n-uint64(have), trustStep)))
		b = b[:min(n, uint64(cap(b)))]
		_, err := io.ReadFull(p.r, b[have:])
		if err != nil {
			return nil, err
		}
	}

	return b, nil
}

func (p pieceReader) decode(v any) error {
	b, err := p.readInto(nil)
	if err != nil {
		return err
	}
	return codec.Decode(b, v)
}
