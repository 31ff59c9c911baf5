// Package intern makes equal values share memory. Rows of a table hold the same texts and the same parts,
// such as topologies, many times.
//
// Its rules:
//
//   - A shared value must never change. Map and Value return copies: the argument may change afterwards.
//   - The result has the same msgpack encoding as the argument.
//   - The package holds at most 16,384 texts and 4,096 other values. A value that comes later may replace one
//     that came earlier, so equal values can have a few copies.
//   - All functions are safe for concurrent use.
package intern

import (
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"berth/internal/codec"
)

const (
	buckets  = 1 << 14 // for texts
	maxText  = 64      // bytes; a longer text is not shared
	replaced = 8       // one text in this many replaces another one
)

var (
	texts    [buckets]atomic.Pointer[string] // by hash
	textSeed = maphash.MakeSeed()
)

// Text returns the copy of a text that equal texts share. A text without equal ones is returned as it is.
func Text(t string) string {
	if t == "" || len(t) > maxText {
		return t
	}
	bucket := &texts[maphash.String(textSeed, t)%buckets]
	known := bucket.Load()
	if known != nil && *known == t {
		return *known
	}
	if known == nil || rand.Uint32()%replaced == 0 {
		own := strings.Clone(t) // not a part of a larger text
		bucket.Store(&own)
		return own
	}
	return t
}

// Texts replaces each text by the copy that equal texts share.
func Texts(texts ...*string) {
	for _, t := range texts {
		*t = Text(*t)
	}
}

// Map returns a map whose keys and values are shared texts.
func Map(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	own := make(map[string]string, len(m))
	for k, v := range m {
		own[Text(k)] = Text(v)
	}
	return own
}

// shared holds the values that Value has returned.
var shared = struct {
	sync.Mutex
	values map[key]any
}{values: map[key]any{}}

// key is a value in msgpack, and a nil pointer of the type of the value.
type key struct {
	kind any
	code string
}

const (
	maxValues = 1 << 12 // beyond that all are dropped
	maxCode   = 1 << 12 // bytes; a longer value is copied and not shared
)

// Value returns the copy of a value that equal values share, nil for nil. The value has only fields that
// msgpack encodes.
func Value[T any](v *T) *T {
	if v == nil {
		return nil
	}

	code, err := codec.Encode(v)
	if err != nil {
		panic(err) // a snapshot file could not hold the value either
	}

	shared.Lock()
	// A key made inside the index expression copies no bytes.
	known := shared.values[key{(*T)(nil), string(code)}]
	shared.Unlock()
	if known != nil {
		return known.(*T)
	}

	own := new(T)
	err = codec.Decode(code, own)
	if err != nil {
		panic(err)
	}

	keepValue(key{(*T)(nil), string(code)}, own)
	return own
}

func keepValue(k key, v any) {
	if len(k.code) > maxCode {
		return
	}
	shared.Lock()
	defer shared.Unlock()
	if len(shared.values) >= maxValues {
		clear(shared.values)
	}
	shared.values[k] = v
}
