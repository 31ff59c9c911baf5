// Package codec is the one msgpack encoding of berth: of RPC bodies, Raft log entries, snapshots and a
// node's local records.
//
// Its law is the Handle, which works by reflection: what it writes is what is written, what it reads can be
// read. The structs of package structs, which are most of what there is to write, have methods that codecgen
// wrote (Generated); they give the same bytes many times faster, and tests hold them against the Handle.
// Everything else goes through the Handle itself.
package codec

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// Handle is the msgpack dialect: strings decode as strings, maps of unknown type as map[string]any.
// It must not be changed after start.
var Handle = newHandle()

func newHandle() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.RawToString = true
	h.MapType = reflect.TypeOf(map[string]any(nil))
	h.WriteExt = true
	h.Raw = true       // a value that is encoded already is written as it is, as the payload of a call
	h.MaxInitLen = 64  // a length that a few bytes claim is not believed: memory grows with what is there
	h.Canonical = true // map keys in order: equal values are equal bytes, which snapshots rely on
	return h
}

// encoders and decoders are used again: making one costs more than a small value does.
var (
	encoders = sync.Pool{New: func() any { return &reusable{Encoder: codec.NewEncoderBytes(new([]byte), Handle)} }}
	decoders = sync.Pool{New: func() any { return codec.NewDecoderBytes(nothing, Handle) }}
	nothing  = []byte{}
)

// reusable is an encoder with the buffer it writes to.
type reusable struct {
	*codec.Encoder
	buf []byte
}

// scratch are buffers for what is encoded before its length is known.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// largestKept is how large a buffer may be to be used again.
const largestKept = 1 << 20

// Encode returns v in msgpack.
func Encode(v any) ([]byte, error) { return EncodeAfter(nil, v) }

// EncodeAfter returns head with v in msgpack after it, in memory of its own.
func EncodeAfter(head []byte, v any) (whole []byte, err error) {
	err = encode(head, v, func(b []byte) error {
		whole = bytes.Clone(b)
		return nil
	})
	return whole, err
}

// SameBytes reports whether two values have the same encoding. Equal values have.
func SameBytes(a, b any) bool {
	x, errX := Encode(a)
	y, errY := Encode(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// EncodeTo writes v in msgpack to w, at once.
func EncodeTo(w io.Writer, v any) error {
	return encode(nil, v, func(b []byte) error {
		_, err := w.Write(b)
		return err
	})
}

// encode lends what follows head and v in msgpack to take.
func encode(head []byte, v any, take func([]byte) error) error {
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	b, err := Append(append((*buf)[:0], head...), v)
	if err != nil {
		return err
	}
	if *buf = b; cap(b) > largestKept {
		*buf = nil
	}
	return take(b)
}

// Append appends v in msgpack to b and returns it, as append does. What is Generated, and slices of pointers
// to it, are written by their own methods, the rest by reflection; the bytes are the same.
func Append(b []byte, v any) ([]byte, error) {
	out, known, err := appendKnown(b, v)
	if !known {
		out, err = appendByReflection(b, v)
	}
	if err != nil {
		return b, fmt.Errorf("encoding %T: %w", v, err)
	}
	return out, nil
}

func appendByReflection(b []byte, v any) ([]byte, error) {
	e := encoders.Get().(*reusable)
	defer encoders.Put(e)
	e.buf = e.buf[:0]
	e.ResetBytes(&e.buf)
	err := e.Encode(v)
	b = append(b, e.buf...)
	if cap(e.buf) > largestKept {
		e.buf = nil
	}
	return b, err
}

// Decode reads v from msgpack bytes; fields that are not among them stay as they are. Bad bytes give an
// error, never a panic. Nothing of b is kept.
func Decode(b []byte, v any) error {
	known, err := decodeKnown(b, v)
	if !known {
		err = decodeByReflection(b, v)
	}
	if err != nil {
		return fmt.Errorf("decoding %T: %w", v, err)
	}
	return nil
}

func decodeByReflection(b []byte, v any) error {
	d := decoders.Get().(*codec.Decoder)
	defer decoders.Put(d)
	if b == nil {
		b = nothing
	}
	d.ResetBytes(b)
	err := d.Decode(v)
	d.ResetBytes(nothing) // do not hold on to the caller's bytes
	return err
}
