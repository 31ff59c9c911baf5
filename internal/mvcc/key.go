package mvcc

import (
	"encoding/binary"
	"math/bits"
)

// Key is a tuple of strings in one byte string. Its order is the order of the tuples.
type Key []byte

// KeyOf returns the key of a tuple. It escapes NUL and 0x01 within a part by 0x01 and ends each part by NUL.
// So no key is a prefix of another one by accident.
func KeyOf(parts ...string) Key {
	size := 0
	for _, p := range parts {
		size += len(p) + 1
	}
	return appendKey(make(Key, 0, size), parts)
}

// KeyIf is KeyOf for a row that an index has, and nil for one that it omits.
func KeyIf(has bool, parts ...string) Key {
	if !has {
		return nil
	}
	return KeyOf(parts...)
}

// KeyPrefix returns the common prefix of all keys whose last given part begins with that text. The parts
// before it have to be equal.
func KeyPrefix(parts ...string) Key {
	k := KeyOf(parts...)
	return k[:len(k)-1]
}

// Ordered encodes a number as a part of a key. Such parts have the order of their numbers.
func Ordered(n uint64) string {
	// The first byte says how many bytes follow, counted from 2: so it needs no escape.
	var b [9]byte
	binary.BigEndian.PutUint64(b[1:], n)
	zeros := bits.LeadingZeros64(n) / 8
	b[zeros] = byte(8 - zeros + 2)
	return string(b[zeros:])
}

// appendKey appends the key of a tuple to a buffer.
func appendKey(out Key, tuple []string) Key {
	for _, p := range tuple {
		out = appendPart(out, p)
	}
	return out
}
