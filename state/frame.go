package state

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

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

// largestPiece is more than any chunk of rows comes to.
const largestPiece = 1 << 30

// read returns the next piece. A length is believed only as far as bytes follow.
func (p pieceReader) read() ([]byte, error) {
	n, err := binary.ReadUvarint(p.r)
	if err != nil {
		return nil, err
	}
	if n > largestPiece {
		return nil, fmt.Errorf("a piece of %d bytes", n)
	}
	var b bytes.Buffer
	b.Grow(int(min(n, 1<<20)))
	if _, err := io.CopyN(&b, p.r, int64(n)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (p pieceReader) decode(v any) error {
	b, err := p.read()
	if err != nil {
		return err
	}
	return codec.Decode(b, v)
}
