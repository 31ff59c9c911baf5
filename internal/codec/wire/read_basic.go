package wire

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// readText reads a string, which shares the memory of b. Most strings are short.
func readText(b []byte) (text, rest []byte, err error) {
	if len(b) > 0 && b[0]&0xe0 == 0xa0 {
		if n := 1 + int(b[0]&0x1f); n <= len(b) {
			return b[1:n], b[n:], nil
		}
	}
	return msgp.ReadStringZC(b)
}

// readString copies the text out of b.
func readString(b []byte) (string, []byte, error) {
	text, rest, err := readText(b)
	if err == nil {
		return string(text), rest, nil
	}
	var s string
	rest, err = ReadOther(b, &s)
	return s, rest, err
}

// ReadString reads into any type of string.
func ReadString[S ~string](b []byte, p *S) ([]byte, error) {
	s, rest, err := readString(b)
	*p = S(s)
	return rest, err
}

// ReadBool reads true or false; nil is false.
func ReadBool(b []byte, p *bool) ([]byte, error) {
	v, rest, err := msgp.ReadBoolBytes(b)
	if err != nil {
		return ReadOther(b, p)
	}
	*p = v
	return rest, nil
}

// ReadInt reads a signed number.
func ReadInt[I ~int | ~int8 | ~int16 | ~int32 | ~int64](b []byte, p *I) ([]byte, error) {
	v, rest, err := msgp.ReadInt64Bytes(b)
	// A number that the type cannot have is a fault, which the Handle reports.
	if err != nil || int64(I(v)) != v {
		return ReadOther(b, p)
	}
	*p = I(v)
	return rest, nil
}

// ReadUint reads a number that is not negative.
func ReadUint[U ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64](b []byte, p *U) ([]byte, error) {
	v, rest, err := msgp.ReadUint64Bytes(b)
	if err != nil || uint64(U(v)) != v {
		return ReadOther(b, p)
	}
	*p = U(v)
	return rest, nil
}

// ReadFloat reads a number.
func ReadFloat(b []byte, p *float64) ([]byte, error) {
	if len(b) < 9 || b[0] != 0xcb {
		return ReadOther(b, p)
	}
	*p = math.Float64frombits(binary.BigEndian.Uint64(b[1:]))
	return b[9:], nil
}

// ReadTime reads a time in UTC.
func ReadTime(b []byte, p *time.Time) ([]byte, error) {
	switch {
	case len(b) >= 6 && b[0] == 0xd6 && b[1] == timestamp:
		sec := binary.BigEndian.Uint32(b[2:])
		*p = time.Unix(int64(sec), 0).UTC()
		return b[6:], nil
	case len(b) >= 10 && b[0] == 0xd7 && b[1] == timestamp:
		packed := binary.BigEndian.Uint64(b[2:])
		sec := int64(packed & (1<<34 - 1))
		*p = time.Unix(sec, int64(packed>>34)).UTC()
		return b[10:], nil
	}

	return ReadOther(b, p)
}
