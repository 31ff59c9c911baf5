package mvcc

import (
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"berth/internal/codec"
)

const (
	internBuckets = 1 << 14 // for texts
	maxInternText = 64      // bytes; a longer text is not shared
	replaced      = 8       // one text in this many replaces another one
)

var (
	texts    [internBuckets]atomic.Pointer[string] // by hash
	textSeed = maphash.MakeSeed()
)

// InternText returns the copy of a text that equal texts share. A text without equal ones is returned as it
// is.
func InternText(t string) string {
	if t == "" || len(t) > maxInternText {
		return t
	}
	bucket := &texts[maphash.String(textSeed, t)%internBuckets]
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

// InternTexts replaces each text by the copy that equal texts share.
func InternTexts(texts ...*string) {
	for _, t := range texts {
		*t = InternText(*t)
	}
}

// InternMap returns a map whose keys and values are shared texts.
func InternMap(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	own := make(map[string]string, len(m))
	for k, v := range m {
		own[InternText(k)] = InternText(v)
	}
	return own
}

// shared holds the values that InternValue has returned.
var shared = struct {
	sync.Mutex
	values map[internKey]any
}{values: map[internKey]any{}}

// key is a value in msgpack, and a nil pointer of the type of the value.
type internKey struct {
	kind any
	code string
}

const (
	maxValues = 1 << 12 // beyond that all are dropped
	maxCode   = 1 << 12 // bytes; a longer value is copied and not shared
)

// InternValue returns the copy of a value that equal values share, nil for nil. The value has only fields
// that msgpack encodes. Rows hold the same texts and the same parts, such as topologies, many times.
//
//   - A shared value must never change. InternMap and InternValue return copies: the argument may change
//     afterwards.
//   - The result has the same msgpack encoding as the argument.
//   - At most 16,384 texts and 4,096 other values are held. A value that comes later may replace one that
//     came earlier, so equal values can have a few copies.
//   - The functions are safe for concurrent use.
func InternValue[T any](v *T) *T {
	if v == nil {
		return nil
	}

	code, err := codec.Encode(v)
	if err != nil {
		panic(err) // a snapshot file could not hold the value either
	}

	shared.Lock()
	// A key made inside the index expression copies no bytes.
	known := shared.values[internKey{(*T)(nil), string(code)}]
	shared.Unlock()
	if known != nil {
		return known.(*T)
	}

	own := new(T)
	err = codec.Decode(code, own)
	if err != nil {
		panic(err)
	}

	keepValue(internKey{(*T)(nil), string(code)}, own)
	return own
}

func keepValue(k internKey, v any) {
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
