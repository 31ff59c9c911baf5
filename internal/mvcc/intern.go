package mvcc

import (
	"hash/maphash"
	"maps"
	"strings"
)

// Interner makes equal values of rows share memory. A row never changes, so that is safe. Two servers may
// share different values, which does not matter. It holds a bounded number of values: new ones replace old
// ones. All methods are safe for concurrent use.
type Interner struct {
	texts *cache[string]
	maps  *cache[map[string]string]

	// Decoding is set for rows that come from a decoder. Nobody else has a reference to a part of such a row, so
	// it may be changed and kept without a copy.
	Decoding bool
}

const (
	writerTexts   = 1 << 13 // a writer sees the same few texts again and again
	decodingTexts = 1 << 20 // a snapshot file has each ID in several tables
	parts         = 1 << 11 // values of one Part
)

// NewInterner returns an empty interner. It is larger for decoding.
func NewInterner(decoding bool) *Interner {
	texts := writerTexts
	if decoding {
		texts = decodingTexts
	}
	return &Interner{
		texts:    newCache(texts, HashText),
		maps:     newCache(parts, func(m *map[string]string) uint64 { return HashMap(*m) }),
		Decoding: decoding,
	}
}

// Text returns the copy of a text that equal texts share.
func (in *Interner) Text(t string) string {
	at := in.texts.at(maphash.String(hashSeed, t))
	for i := range at {
		if known := at[i].Load(); known != nil && *known == t {
			return *known
		}
	}
	own := t
	if !in.Decoding {
		own = strings.Clone(t) // not a part of a larger text
	}
	return *in.texts.keep(at, &own)
}

// Texts replaces each text that is not empty by the copy that equal texts share.
func (in *Interner) Texts(texts ...*string) {
	for _, t := range texts {
		if *t != "" {
			*t = in.Text(*t)
		}
	}
}

// Fields are the fields of a row whose texts other rows may have, too. Those behind the last one are nil.
type Fields [12]*string

// TextsOf is Texts for the fields of a row. Where the row before it had the same text, now shares that one,
// without a look-up. before may be nil.
func TextsOf[T any](in *Interner, now, before *T, fieldsOf func(*T) Fields) {
	var old Fields
	if before != nil {
		old = fieldsOf(before)
	}
	for i, t := range fieldsOf(now) {
		switch {
		case t == nil || *t == "":
		case old[i] != nil && *old[i] == *t:
			*t = *old[i]
		default:
			*t = in.Text(*t)
		}
	}
}

// Map returns the copy of a map that equal maps share. An empty map is copied and not shared.
func (in *Interner) Map(m map[string]string) map[string]string {
	if len(m) == 0 {
		return maps.Clone(m)
	}
	at := in.maps.at(HashMap(m))
	for i := range at {
		if known := at[i].Load(); known != nil && maps.Equal(*known, m) {
			return *known
		}
	}
	own := in.TextsOfMap(m)
	return *in.maps.keep(at, &own)
}

// TextsOfMap returns a map of the caller's own whose keys and values are shared texts.
func (in *Interner) TextsOfMap(m map[string]string) map[string]string {
	own := m
	if m != nil && !in.Decoding {
		own = make(map[string]string, len(m))
	}
	for k, v := range m {
		own[in.Text(k)] = in.Text(v)
	}
	return own
}

// Part makes equal values of one type share memory.
type Part[T any] struct {
	values *cache[T]
	equal  func(a, b *T) bool
	copied func(*T) T // returns a value that nobody else can change
}

// NewPart returns an empty Part. It needs a hash, an equality and a deep copy of its values.
func NewPart[T any](hash func(*T) uint64, equal func(a, b *T) bool, copied func(*T) T) *Part[T] {
	return &Part[T]{newCache(parts, hash), equal, copied}
}

// Of returns the value that values equal to v share. It is nil for nil.
func (p *Part[T]) Of(v *T) *T {
	if v == nil {
		return nil
	}
	at := p.values.at(p.values.hash(v))
	for i := range at {
		if known := at[i].Load(); known != nil && p.equal(known, v) {
			return known
		}
	}
	own := p.copied(v)
	return p.values.keep(at, &own)
}

// HashText returns a hash that differs between processes.
func HashText(t *string) uint64 { return maphash.String(hashSeed, *t) }

// HashValue returns a hash that differs between processes.
func HashValue[T comparable](v *T) uint64 { return maphash.Comparable(hashSeed, *v) }

// HashMap returns a hash that is the same for a nil and an empty map.
func HashMap(m map[string]string) (sum uint64) {
	for k, v := range m {
		sum += MixHashes(maphash.String(hashSeed, k), maphash.String(hashSeed, v))
	}
	return sum
}

// MixHashes returns the hash of a pair of values from their hashes.
func MixHashes(a, b uint64) uint64 {
	h := (a ^ b>>31 ^ b<<33) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}
