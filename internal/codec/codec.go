// Package codec is the one msgpack encoding of berth: of RPC bodies, Raft log entries, snapshots and a
// node's local records.
//
// The Handle defines it. The Handle works by reflection. The structs that are encoded most often have methods
// that codecgen wrote (Generated). These give the same bytes and read the same values several times faster.
// Tests compare them with the Handle. All other values go through the Handle itself.
package codec

import (
	"bytes"
	"fmt"
	"reflect"
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"berth/internal/codec/wire"
)

func init() { wire.Others = reflection{} }

// reflection is the Handle for generated codecs.
type reflection struct{}

// Handle is the msgpack dialect: strings decode as strings, maps of unknown type as map[string]any.
// It must not be changed after start.
var Handle = newHandle()

func newHandle() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.RawToString = true
	h.MapType = reflect.TypeFor[map[string]any]()
	h.WriteExt = true
	h.Raw = true // an encoded value, as the payload of a call, is written as it is
	// A few bytes can claim any length: memory grows with the bytes that follow.
	h.MaxInitLen = wire.CapacityAtOnce
	h.Canonical = true // map keys in order: snapshots rely on equal bytes for equal values
	return h
}

// encoders and decoders are reused: to make one costs more than to encode a small value.
var (
	encoders = sync.Pool{New: newEncoder}
	decoders = sync.Pool{New: newDecoder}
	nothing  = []byte{}
)

// reusable is an encoder with the buffer it writes to.
type reusable struct {
	*codec.Encoder
	buf []byte
}

func newEncoder() any {
	return &reusable{Encoder: codec.NewEncoderBytes(new([]byte), Handle)}
}

func newDecoder() any {
	return codec.NewDecoderBytes(nothing, Handle)
}

// scratch has buffers for values of unknown encoded length.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// largestKept is the size in bytes of the largest buffer that is reused.
const largestKept = 1 << 20

// Encode returns v in msgpack.
func Encode(v any) ([]byte, error) {
	return EncodeAfter(nil, v)
}

// EncodeAfter returns head followed by v in msgpack, in new memory.
func EncodeAfter(head []byte, v any) ([]byte, error) {
	return encode(func(b []byte) ([]byte, error) {
		b = append(b, head...)
		return Append(b, v)
	})
}

// EncodeRows returns rows in msgpack as Encode does, and uses the codec of T if it has one.
func EncodeRows[T any](rows []*T) ([]byte, error) {
	return encode(func(b []byte) ([]byte, error) {
		return appendRows(b, rows)
	})
}

// encode returns a copy of the bytes that fill appends to an empty buffer.
func encode(fill func([]byte) ([]byte, error)) ([]byte, error) {
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	b, err := fill((*buf)[:0])
	if err != nil {
		return nil, err
	}
	if cap(b) <= largestKept {
		*buf = b
	}
	return bytes.Clone(b), nil
}

// SameBytes reports whether two values have the same encoding. Equal values have.
func SameBytes(a, b any) bool {
	x, errX := Encode(a)
	y, errY := Encode(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Append appends v in msgpack to b and returns the result, as append does.
func Append(b []byte, v any) ([]byte, error) {
	var out []byte
	var err error
	if g, ok := generated(v); ok {
		out, err = g.AppendMsgpack(b)
	} else {
		out, err = reflection{}.Append(b, v)
	}
	if err != nil {
		return b, failure("encoding", v, err)
	}
	return out, nil
}

// failure adds to an error the type of the value.
func failure(doing string, v any, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %T: %w", doing, v, err)
}

// Append implements wire.Reflection.
func (reflection) Append(b []byte, v any) ([]byte, error) {
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

// Decode reads v from msgpack bytes. It leaves the fields that the bytes do not name. Bad bytes give an
// error, never a panic. Decode keeps no part of b.
func Decode(b []byte, v any) error {
	var err error
	if g, ok := generated(v); ok {
		_, err = g.DecodeMsgpack(b)
	} else {
		err = reflection{}.Decode(b, v)
	}
	return failure("decoding", v, err)
}

// Decode implements wire.Reflection.
func (reflection) Decode(b []byte, v any) error {
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
