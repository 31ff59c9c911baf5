package rpc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"berth/internal/codec"
)

// messages reads msgpack values one after another, each whole and then decoded: so no value is longer than
// max bytes, memory grows with what has arrived and not with what a length claims, and after a value that
// does not decode the next one is found all the same.
type messages struct {
	r   *bufio.Reader
	max int
	buf []byte
	dec *msgpack.Decoder
	// lost says that a value was too long or no msgpack: where the next one begins is unknown.
	lost bool
}

// keptBuffer is how large a buffer may be that is kept for the next value.
const keptBuffer = 64 << 10

// chunk is how much is made room for before it has arrived.
const chunk = 32 << 10

func newMessages(r io.Reader, limit int64) *messages {
	return &messages{r: bufio.NewReader(r), max: int(limit), dec: msgpack.NewDecoderBytes(nil, codec.Handle)}
}

// read reads the next value into v; nil drops it. At the end of what there is the error is io.EOF.
func (m *messages) read(v any) error {
	if cap(m.buf) > keptBuffer {
		m.buf = nil
	}
	m.buf = m.buf[:0]
	if err := m.gather(); err != nil {
		m.lost = true
		if errors.Is(err, io.EOF) && len(m.buf) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if v == nil {
		return nil
	}
	m.dec.ResetBytes(m.buf)
	if err := m.dec.Decode(v); err != nil {
		return fmt.Errorf("it does not decode: %w", err)
	}
	return nil
}

// gather puts one value into the buffer: itself, and as many more as it holds.
func (m *messages) gather() error {
	for left := 1; left > 0; left-- {
		b, err := m.r.ReadByte()
		if err != nil {
			return err
		}
		m.buf = append(m.buf, b)
		s := shapes[b]
		if s.bad {
			return fmt.Errorf("%#x begins no msgpack value", b)
		}
		size := s.fixed
		if s.length > 0 {
			n, err := m.length(s.length)
			if err != nil {
				return err
			}
			left += n * s.values
			if s.values == 0 {
				size += n
			}
		} else {
			left += s.count
		}
		if len(m.buf)+size+left-1 > m.max { // each value that is still to come takes a byte at least
			return fmt.Errorf("it is longer than %d bytes", m.max)
		}
		if err := m.copy(size); err != nil {
			return err
		}
	}
	return nil
}

// length reads a length of 1, 2 or 4 bytes.
func (m *messages) length(bytes int) (int, error) {
	var b [4]byte
	if _, err := io.ReadFull(m.r, b[4-bytes:]); err != nil {
		return 0, err
	}
	m.buf = append(m.buf, b[4-bytes:]...)
	return int(binary.BigEndian.Uint32(b[:])), nil
}

// copy takes over n bytes, a chunk at a time.
func (m *messages) copy(n int) error {
	for n > 0 {
		at, part := len(m.buf), min(n, chunk)
		m.buf = slices.Grow(m.buf, part)[:at+part]
		if _, err := io.ReadFull(m.r, m.buf[at:]); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

// shape is how a value goes on after its first byte.
type shape struct {
	fixed  int  // so many bytes
	length int  // bytes of a length, which counts bytes, or with values > 0 that many values each
	values int  // 1 for an array, 2 for a map
	count  int  // so many values
	bad    bool // no value begins so
}

// shapes are by first byte (msgpack specification, "Formats").
var shapes = func() (all [256]shape) {
	for n := range 16 {
		all[0x80+n] = shape{count: 2 * n} // fixmap
		all[0x90+n] = shape{count: n}     // fixarray
	}
	for n := range 32 {
		all[0xa0+n] = shape{fixed: n} // fixstr
	}
	all[0xc1] = shape{bad: true}
	for n := range 3 {
		all[0xc4+n] = shape{length: 1 << n}           // bin
		all[0xc7+n] = shape{length: 1 << n, fixed: 1} // ext
		all[0xd9+n] = shape{length: 1 << n}           // str
	}
	for n := range 2 {
		all[0xca+n] = shape{fixed: 4 << n}             // float
		all[0xdc+n] = shape{length: 2 << n, values: 1} // array
		all[0xde+n] = shape{length: 2 << n, values: 2} // map
	}
	for n := range 4 {
		all[0xcc+n] = shape{fixed: 1 << n} // uint
		all[0xd0+n] = shape{fixed: 1 << n} // int
	}
	for n := range 5 {
		all[0xd4+n] = shape{fixed: 1<<n + 1} // fixext
	}
	return all
}()
