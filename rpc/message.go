package rpc

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"berth/internal/codec"
	"berth/internal/loadshed"
	"berth/structs"
)

// messages reads msgpack values one after another, each whole before it is decoded. So no value is longer
// than max bytes, memory grows with the bytes that have arrived and not with the lengths that they claim, and
// the next value is found after one that does not decode. Values that arrived together are read from the
// connection together.
//
// messages reads past a value for which the budget has no bytes, and finds the next one.
type messages struct {
	r   io.Reader
	max int
	buf []byte // the arrived bytes; the values up to at are read
	at  int
	// before, if not nil, is called before a read from the connection, which may take long.
	before func()
	// lost is true after a value that was too long or no msgpack: the start of the next one is unknown.
	lost bool

	budget  *loadshed.Budget // of buffers above structs.SmallRPC; nil: no bound
	taken   int64            // bytes of the budget that buf holds
	full    bool             // the budget has no bytes for the value that is being read
	dropped int              // bytes of that value that are not kept
	parts   int              // of the last value (see shape)
}

// errFull is the error of a value that was read past.
var errFull = errors.New("there are too many bytes of requests in flight")

const (
	smallBuffer = 4 << 10          // bytes of a new buffer
	keptBuffer  = structs.SmallRPC // the most bytes of a buffer that is kept for the next value
	growBy      = 32 << 10         // the least bytes that a buffer grows by
)

func newMessages(r io.Reader, limit int64) *messages {
	return &messages{r: r, max: int(limit)}
}

// read reads the next value into v; nil drops it. At the end of the connection the error is io.EOF.
func (m *messages) read(v any) error {
	b, err := m.next()
	if err != nil || v == nil {
		return err
	}
	err = codec.Decode(b, v)
	if err != nil {
		return fmt.Errorf("the message cannot be decoded: %w", err)
	}
	return nil
}

// next returns the next value, whole. The value is valid until the following call. The error is errFull for a
// value that was read past.
func (m *messages) next() ([]byte, error) {
	m.full = false
	m.dropped = 0
	size, err := m.measure()
	if err != nil {
		m.lost = true
		began := m.at < len(m.buf) || m.dropped > 0
		if errors.Is(err, io.EOF) && began {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	m.at += size - m.dropped
	if m.full {
		return nil, errFull
	}
	return m.buf[m.at-size : m.at], nil
}

// measure reads the whole next value and returns its length.
func (m *messages) measure() (size int, err error) {
	m.parts = 0
	for left := 1; left > 0; left-- {
		b, err := m.need(size, 1)
		if err != nil {
			return 0, err
		}

		s := &shapes[b[0]]
		if s.bad {
			return 0, fmt.Errorf("%#x begins no msgpack value", b[0])
		}

		size += 1 + s.fixed
		m.parts += s.parts
		left += s.count
		if s.length > 0 {
			b, err := m.need(size-s.fixed, s.length)
			if err != nil {
				return 0, err
			}

			n := lengthOf(b)
			size += s.length
			left += n * s.values
			if s.values == 0 {
				size += n
			}

			m.parts += partsOf(s.values, n)
		}

		if size+left-1 > m.max { // each value that is still to come takes a byte at least
			return 0, fmt.Errorf("it is longer than %d bytes", m.max)
		}
	}

	_, err = m.need(size, 0)
	return size, err
}

// lengthOf returns the length in 1, 2 or 4 bytes.
func lengthOf(b []byte) (n int) {
	for _, digit := range b {
		n = n<<8 | int(digit)
	}
	return n
}

// need reads until the n bytes at from of the next value have arrived, and all before them. It may drop the
// latter.
func (m *messages) need(from, n int) ([]byte, error) {
	for {
		if m.full {
			m.drop(from)
		}

		at := m.at + from - m.dropped
		if at+n <= len(m.buf) {
			return m.buf[at : at+n], nil
		}

		m.grow()
		if m.full && len(m.buf) == cap(m.buf) {
			continue
		}

		if m.before != nil {
			m.before()
		}

		got, err := m.r.Read(m.buf[len(m.buf):cap(m.buf)])
		m.buf = m.buf[:len(m.buf)+got]
		at = m.at + from - m.dropped
		if err != nil && len(m.buf) < at+n {
			return nil, err
		}
	}
}

// drop drops the bytes of the next value before from, as far as they have arrived.
func (m *messages) drop(from int) {
	n := min(from-m.dropped, len(m.buf)-m.at)
	m.at += n
	m.dropped += n
}

// grow moves the next value to the start of the buffer and makes space for more of it, in proportion to the
// part that has arrived. A buffer for a large value is dropped with the value.
func (m *messages) grow() {
	rest := m.buf[m.at:]
	if m.at > 0 || m.buf == nil {
		small := m.buf != nil && cap(m.buf) <= keptBuffer
		if len(rest) == 0 && !small {
			m.buf = make([]byte, 0, smallBuffer)
			m.free()
		}

		m.buf = m.buf[:copy(m.buf[:len(rest)], rest)]
		m.at = 0
	}

	if len(m.buf) < cap(m.buf) {
		return
	}

	more := max(growBy, len(m.buf))
	if m.reserve(len(m.buf) + more) {
		m.buf = slices.Grow(m.buf, more)
	}
}

// reserve takes bytes of the budget for a buffer of a size. If the budget has too few, the value is read
// past.
func (m *messages) reserve(size int) bool {
	if m.budget == nil || size <= structs.SmallRPC {
		return true
	}
	if m.full || !m.budget.Take(int64(size)-m.taken) {
		m.full = true
		return false
	}
	m.taken = int64(size)
	return true
}

// free releases the buffer's share of the budget. The buffer is not used afterwards.
func (m *messages) free() {
	if m.taken > 0 {
		m.budget.Give(m.taken)
		m.taken = 0
	}
}

// shape describes the bytes after the first byte of a value.
type shape struct {
	fixed  int  // bytes
	length int  // bytes of a length, which counts bytes, or with values > 0 that many values each
	values int  // 1 for an array, 2 for a map
	count  int  // values
	parts  int  // the number of parts that the value counts as
	bad    bool // no value begins with the byte
}

// partsOf returns the number of parts of a list (values 1) or a map (values 2) of n entries. The memory of a
// decoded value grows with its parts: each entry of a list may become a struct. A map mostly is a struct
// itself, so eight of its entries count as one.
func partsOf(values, n int) int {
	switch values {
	case 1:
		return 1 + n
	case 2:
		return 1 + n/8
	}
	return 0
}

// shapes are by first byte (msgpack specification, "Formats").
var shapes = func() (all [256]shape) {
	for n := range 16 {
		all[0x80+n] = shape{count: 2 * n, parts: partsOf(2, n)} // fixmap
		all[0x90+n] = shape{count: n, parts: partsOf(1, n)}     // fixarray
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
