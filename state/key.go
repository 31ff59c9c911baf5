package state

import (
	"encoding/binary"
	"math/bits"
)

// key is a tuple of texts in one piece. Its first byte is that of the index it belongs to, 0 until that is known.
type key []byte

// keyOf writes each part with an end mark, so that no key is the beginning of another by accident and
// the order of keys is the order of their parts. NUL marks the end; inside a part NUL and 0x01 are
// escaped by 0x01.
func keyOf(parts ...string) key {
	size := 1
	for _, p := range parts {
		size += len(p) + 1 + escapes(p)
	}
	return appendKey(make(key, 0, size), 0, parts)
}

// appendKey is keyOf into a buffer, for the index with that first byte.
func appendKey(out key, lead byte, parts []string) key {
	out = append(out, lead)
	for _, p := range parts {
		if escapes(p) == 0 {
			out = append(append(out, p...), 0)
			continue
		}
		for i := range len(p) {
			if p[i] <= 1 {
				out = append(out, 1, p[i]+1)
				continue
			}
			out = append(out, p[i])
		}
		out = append(out, 0)
	}
	return out
}

// escapes counts the bytes of a part that have to be escaped: nearly always none.
func escapes(p string) (n int) {
	for i := range len(p) {
		if p[i] <= 1 {
			n++
		}
	}
	return n
}

// ordered is a number as a part of a key: the order of keys is the order of numbers. Its first byte is how
// many follow, counted from a number that needs no escaping.
func ordered(n uint64) string {
	var b [9]byte
	binary.BigEndian.PutUint64(b[1:], n)
	zeros := bits.LeadingZeros64(n) / 8
	b[zeros] = byte(8 - zeros + 2)
	return string(b[zeros:])
}
