package state

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"berth/internal/codec"
)

// A snapshot is a sequence of pieces: each its length, then so many bytes, which are one value.

type pieceWriter struct{ w io.Writer }

func (p pieceWriter) write(piece []byte) error {
	var length [binary.MaxVarintLen64]byte
	if _, err := p.w.Write(length[:binary.PutUvarint(length[:], uint64(len(piece)))]); err != nil {
		return err
	}
	_, err := p.w.Write(piece)
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
	largestPiece = 1 << 30 // more than any chunk of rows comes to
	believed     = 1 << 20 // room made before so much has been read
)

// read returns the next piece.
func (p pieceReader) read() ([]byte, error) { return p.readInto(nil) }

// readInto is read into the memory of b, where that is enough. A length is believed only as far as bytes follow.
func (p pieceReader) readInto(b []byte) ([]byte, error) {
	n, err := binary.ReadUvarint(p.r)
	if err != nil {
		return nil, err
	}
	if n > largestPiece {
		return nil, fmt.Errorf("a piece of %d bytes", n)
	}
	b = b[:0]
	for uint64(len(b)) < n {
		have := len(b)
		b = slices.Grow(b, int(min(n-uint64(have), believed)))
		b = b[:min(n, uint64(cap(b)))]
		if _, err := io.ReadFull(p.r, b[have:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (p pieceReader) decode(v any) error {
	b, err := p.read()
	if err != nil {
		return err
	}
	return codec.Decode(b, v)
}
