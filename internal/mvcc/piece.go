package mvcc

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"berth/internal/codec"
)

// PieceWriter writes pieces.
type PieceWriter struct{ w io.Writer }

// NewPieceWriter returns a writer of pieces to w.
func NewPieceWriter(w io.Writer) PieceWriter { return PieceWriter{w} }

// Write writes a piece, which may be empty.
func (p PieceWriter) Write(piece []byte) error {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(piece)))
	_, err := p.w.Write(length[:n])
	if err != nil {
		return err
	}
	_, err = p.w.Write(piece)
	return err
}

// Encode writes a value as a piece.
func (p PieceWriter) Encode(v any) error {
	b, err := codec.Encode(v)
	if err != nil {
		return err
	}
	return p.Write(b)
}

// PieceReader reads pieces.
type PieceReader struct{ r *bufio.Reader }

// readAhead is the memory for bytes that are read before they are needed.
const readAhead = 64 << 10

// NewPieceReader returns a reader of pieces from r. It may read more of r than the pieces that it returns.
func NewPieceReader(r io.Reader) PieceReader {
	return PieceReader{bufio.NewReaderSize(r, readAhead)}
}

const (
	maxPiece  = 1 << 30 // bytes: more than any chunk of rows has
	trustStep = 1 << 20 // bytes that are allocated before that many have been read
)

// ReadInto returns the next piece, in the memory of b if that is enough. It allocates for a length only as
// far as bytes follow.
func (p PieceReader) ReadInto(b []byte) ([]byte, error) {
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

// Decode reads a piece into the value to which v points.
func (p PieceReader) Decode(v any) error {
	b, err := p.ReadInto(nil)
	if err != nil {
		return err
	}
	return codec.Decode(b, v)
}

// EncodePiece encodes a chunk of rows, which are pointers to T.
func EncodePiece[T any](chunk []any) ([]byte, error) {
	rows := make([]*T, len(chunk))
	for i, r := range chunk {
		rows[i] = r.(*T)
	}
	return codec.EncodeRows(rows)
}

// DecodePiece decodes a chunk of rows. Its rows are pointers to T.
func DecodePiece[T any](piece []byte) ([]any, error) {
	var rows []*T
	err := codec.DecodeRows(piece, &rows)
	if err != nil {
		return nil, err
	}
	chunk := make([]any, len(rows))
	for i, r := range rows {
		if r == nil {
			return nil, fmt.Errorf("a row is nil")
		}
		chunk[i] = r
	}
	return chunk, nil
}
