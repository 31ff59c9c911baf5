package wire

import (
	"errors"
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

var (
	errEnds  = errors.New("it ends early")
	errDepth = errors.New("it is nested too deeply")
)

// deepest is the largest depth at which a value may nest others. It is less than the Handle allows.
const deepest = 1000

// ReadOther decodes one value into *p by the Handle.
func ReadOther[T any](b []byte, p *T) ([]byte, error) {
	if msgp.IsNil(b) {
		*p = *new(T)
		return b[1:], nil
	}
	return readOther(b, p)
}

// readOther finds the end of a value and gives it to the Handle. It is compiled once, not for each type.
func readOther(b []byte, p any) ([]byte, error) {
	rest, err := skip(b, deepest)
	if err != nil {
		return b, err
	}
	return rest, Others.Decode(b[:len(b)-len(rest)], p)
}

// readLength checks a length against the bytes that are left. Each element takes one byte at least.
func readLength(n uint32, rest []byte, err error) (int, []byte, error) {
	if err != nil {
		return 0, rest, err
	}

	if uint64(n) > uint64(len(rest)) {
		err = fmt.Errorf("%w: %d elements in %d bytes",
			errEnds, n, len(rest))
		return 0, rest, err
	}

	return int(n), rest, nil
}

// isMap reports whether a map begins here, in any of its three forms.
func isMap(b []byte) bool {
	return len(b) > 0 &&
		(b[0]&0xf0 == 0x80 ||
			b[0] == 0xde || b[0] == 0xdf)
}

// isArray reports whether a list begins here, in any of its three forms.
func isArray(b []byte) bool {
	return len(b) > 0 &&
		(b[0]&0xf0 == 0x90 ||
			b[0] == 0xdc || b[0] == 0xdd)
}

// skip returns the bytes after one value that nests others at most depth levels deep. It rejects the values
// that the Handle would not skip.
func skip(b []byte, depth int) (rest []byte, err error) {
	if depth == 0 {
		return b, errDepth
	}

	if len(b) == 0 {
		return b, errEnds
	}

	var n uint32
	values := uint64(1)
	switch {
	case isArray(b):
		n, rest, err = msgp.ReadArrayHeaderBytes(b)
	case isMap(b):
		n, rest, err = msgp.ReadMapHeaderBytes(b)
		values = 2
	default:
		rest, err = msgp.Skip(b)
		if err == nil {
			err = checkExtension(b[:len(b)-len(rest)])
		}
		return rest, err
	}

	values *= uint64(n)
	for err == nil && values > 0 {
		values--
		rest, err = skip(rest, depth-1)
	}

	return rest, err
}

// checkExtension rejects empty extensions, and timestamps of a length that no timestamp has.
func checkExtension(b []byte) error {
	head, isExtension := extensionHead[b[0]]
	if !isExtension {
		return nil
	}

	data := len(b) - head
	badTime := b[head-1] == timestamp &&
		data != 4 && data != 8 && data != 12
	if data == 0 || badTime {
		return fmt.Errorf("an extension of %d bytes", data)
	}

	return nil
}

// extensionHead has the number of bytes before the data of an extension, by its first byte.
var extensionHead = map[byte]int{
	0xd4: 2, 0xd5: 2, 0xd6: 2, 0xd7: 2, 0xd8: 2,
	0xc7: 3, 0xc8: 4, 0xc9: 6,
}
