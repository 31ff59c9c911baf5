// Package codec is the one msgpack encoding of berth: of RPC bodies, Raft log entries, snapshots and a
// node's local records.
package codec

import (
	"bytes"
	"io"
	"reflect"

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
	h.MaxInitLen = 64  // a length that a few bytes claim is not believed: memory grows with what is there
	h.Canonical = true // map keys in order: equal values are equal bytes, which snapshots rely on
	return h
}

// Encode returns v in msgpack.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := codec.NewEncoder(&b, Handle).Encode(v)
	return b.Bytes(), err
}

// Decode reads v from msgpack bytes. Bad bytes give an error, never a panic.
func Decode(b []byte, v any) error { return codec.NewDecoderBytes(b, Handle).Decode(v) }

// NewEncoder writes values one after another to w.
func NewEncoder(w io.Writer) *codec.Encoder { return codec.NewEncoder(w, Handle) }

// NewDecoder reads values one after another from r.
func NewDecoder(r io.Reader) *codec.Decoder { return codec.NewDecoder(r, Handle) }
