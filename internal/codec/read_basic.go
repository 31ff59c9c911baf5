package codec

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// readText reads a string, which shares the memory of b. Most are short.
func readText(b []byte) (text, rest []byte, err error) {
	if len(b) > 0 && b[0]&0xe0 == 0xa0 {
		if n := 1 + int(b[0]&0x1f); n <= len(b) {
			return b[1:n], b[n:], nil
		}
	}
	return msgp.ReadStringZC(b)
}

// ReadString reads a string.
func ReadString(b []byte) (string, []byte, error) { return ReadText[string](b) }

// ReadText reads a string of any type.
func ReadText[S ~string](b []byte) (S, []byte, error) {
	s, rest, err := readText(b)
	if err != nil {
		return other[S](b)
	}
	return S(s), rest, nil
}

// ReadBool reads a bool.
func ReadBool(b []byte) (bool, []byte, error) {
	v, rest, err := msgp.ReadBoolBytes(b)
	if err != nil {
		return other[bool](b)
	}
	return v, rest, nil
}

// ReadInt reads a signed number.
func ReadInt[I ~int | ~int8 | ~int16 | ~int32 | ~int64](b []byte) (I, []byte, error) {
	if len(b) > 0 && b[0] < 0x80 {
		return I(b[0]), b[1:], nil
	}
	i, rest, err := msgp.ReadInt64Bytes(b)
	if err != nil || int64(I(i)) != i {
		return other[I](b)
	}
	return I(i), rest, nil
}

// ReadUint reads a number that is not negative.
func ReadUint[U ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64](b []byte) (U, []byte, error) {
	if len(b) > 0 && b[0] < 0x80 {
		return U(b[0]), b[1:], nil
	}
	u, rest, err := msgp.ReadUint64Bytes(b)
	if err != nil || uint64(U(u)) != u {
		return other[U](b)
	}
	return U(u), rest, nil
}

// ReadFloat reads a float64.
func ReadFloat(b []byte) (float64, []byte, error) {
	if len(b) < 9 || b[0] != 0xcb {
		return other[float64](b)
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b[1:])), b[9:], nil
}

// ReadTime reads a time, which is UTC.
func ReadTime(b []byte) (time.Time, []byte, error) {
	switch {
	case msgp.IsNil(b):
		return time.Time{}, b[1:], nil
	case len(b) >= 6 && b[0] == 0xd6 && b[1] == timestamp:
		return time.Unix(int64(binary.BigEndian.Uint32(b[2:])), 0).UTC(), b[6:], nil
	case len(b) >= 10 && b[0] == 0xd7 && b[1] == timestamp:
		packed := binary.BigEndian.Uint64(b[2:])
		return time.Unix(int64(packed&(1<<34-1)), int64(packed>>34)).UTC(), b[10:], nil
	}
	return other[time.Time](b)
}
