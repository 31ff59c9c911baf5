package mvcc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

func TestReader_ReturnsThePiecesOfAWriter(t *testing.T) {
	var file bytes.Buffer
	w := NewPieceWriter(&file)
	err := errors.Join(w.Encode("head"), w.Write([]byte("rows")), w.Write(nil))
	if err != nil {
		t.Fatal(err)
	}

	r := NewPieceReader(&file)
	var head string
	err = r.Decode(&head)
	if err != nil || head != "head" {
		t.Errorf("got the value %q, %v", head, err)
	}

	for _, want := range []string{"rows", ""} {
		got, err := r.ReadInto(make([]byte, 0, 2))
		if err != nil || string(got) != want {
			t.Errorf("got the piece %q, %v; want %q", got, err, want)
		}
	}

	_, err = r.ReadInto(nil)
	if !errors.Is(err, io.EOF) {
		t.Errorf("after the last piece: %v", err)
	}
}

// A length that the file does not have costs no memory of that length.
func TestReader_AllocatesWhatFollows(t *testing.T) {
	short := append(binary.AppendUvarint(nil, maxPiece), "few bytes"...)
	got, err := NewPieceReader(bytes.NewReader(short)).ReadInto(nil)
	if !errors.Is(err, io.ErrUnexpectedEOF) || cap(got) > 2*trustStep {
		t.Errorf("got %d bytes of memory, %v", cap(got), err)
	}

	long := binary.AppendUvarint(nil, maxPiece+1)
	_, err = NewPieceReader(bytes.NewReader(long)).ReadInto(nil)
	if err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a piece above the bound: %v", err)
	}
}
