package rpc

import (
	"io"
	"net"
	"sync"

	"berth/structs"
)

// buffers are what messages are put together in.
var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, smallBuffer)} }}

// buffer is a message, or with the buffers after it one that is long.
type buffer struct {
	b    []byte
	next *buffer
}

// release gives a message's buffers back, but those that are large.
func (m *buffer) release() {
	for m != nil {
		next := m.next
		m.next = nil
		if cap(m.b) <= keptBuffer {
			m.b = m.b[:0]
			buffers.Put(m)
		}
		m = next
	}
}

// last is the buffer in which a message ends, and how long it is.
func (m *buffer) last() (end *buffer, size int) {
	for end = m; end.next != nil; end = end.next {
		size += len(end.b)
	}
	return end, size + len(end.b)
}

// chunk is how much of a long message there is at most in one buffer, but for one value.
const chunk = keptBuffer - 4<<10

// Response is a message that an answer is appended to, in pieces.
type Response struct {
	last   *buffer
	before int64 // bytes of the pieces before the last
	limit  int64 // bytes of all, 0 for no limit
}

// ResponseBytes is what an answer appends, in one piece.
func ResponseBytes(a Appender) ([]byte, error) {
	m := new(buffer)
	if err := a.AppendResponse(&Response{last: m}); err != nil {
		return nil, err
	}
	var all []byte
	for ; m != nil; m = m.next {
		all = append(all, m.b...)
	}
	return all, nil
}

// Bytes is where the piece that is under way ends.
func (a *Response) Bytes() []byte { return a.last.b }

// Put takes what Bytes was, with more appended. When that is a whole piece the next one begins. It refuses an
// answer above the limit: the other end would not read it, and this one would have it whole in memory.
func (a *Response) Put(b []byte) error {
	a.last.b = b
	if err := responseFits(a.before+int64(len(b)), a.limit); err != nil {
		return err
	}
	if len(b) >= chunk {
		a.Next()
	}
	return nil
}

// responseFits refuses an answer of more bytes than the other end reads. A limit of 0 is none.
func responseFits(size, limit int64) error {
	if limit == 0 || size <= limit {
		return nil
	}
	return structs.Errorf(structs.KindInvalid, "the answer has more than %d bytes: ask for less, or page by page", limit)
}

// Next begins the next piece: what is in those before it may be changed in place from now on.
func (a *Response) Next() {
	a.before += int64(len(a.last.b))
	a.last.next = buffers.Get().(*buffer)
	a.last = a.last.next
	if cap(a.last.b) < keptBuffer {
		a.last.b = make([]byte, 0, keptBuffer)
	}
}

// writer writes whole messages to one connection, for many at once. Who finds it writing leaves the message
// and goes: all that were left are then written together. So one that comes alone is written at once, and
// many that come at the same time take one system call.
type writer struct {
	conn io.WriteCloser

	mu     sync.Mutex
	room   sync.Cond // less is left
	busy   bool      // somebody writes
	left   *buffer   // what came meanwhile, nil for nothing
	end    *buffer   // where that ends
	size   int       // and how long it is
	failed error
}

func newWriter(conn io.WriteCloser) *writer {
	w := &writer{conn: conn}
	w.room.L = &w.mu
	return w
}

// write writes a message, or leaves it to who is writing; then an error is not known yet. After an error
// the connection is closed and nothing more is written. When too much is left it waits, so that an other end
// that does not read holds up those who serve it.
func (w *writer) write(m *buffer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.busy && w.size > keptBuffer {
		w.room.Wait()
	}
	if w.failed != nil {
		return w.failed
	}
	if w.busy || w.left != nil {
		w.leave(m)
	} else {
		w.left = m
	}
	return w.send()
}

// keep keeps a message for the next time that one is written, or for flush. It waits as write does.
func (w *writer) keep(m *buffer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.busy && w.size > keptBuffer {
		w.room.Wait()
	}
	if w.leave(m); w.size > keptBuffer {
		_ = w.send() // who writes next is told
	}
}

// flush writes what was kept.
func (w *writer) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.send() // who writes next is told
}

// send writes what is left, unless somebody does.
func (w *writer) send() error {
	if w.busy {
		return nil
	}
	m := w.left
	w.left, w.end, w.size = nil, nil, 0
	w.busy = true
	for m != nil && w.failed == nil {
		w.mu.Unlock()
		err := m.writeTo(w.conn)
		m.release()
		w.mu.Lock()
		if err != nil {
			w.failed = err
			_ = w.conn.Close() // the error that counts is the other
		}
		m = w.left
		w.left, w.end, w.size = nil, nil, 0
		w.room.Broadcast()
	}
	w.busy = false
	return w.failed
}

// leave adds a message to those that are left.
func (w *writer) leave(m *buffer) {
	end, size := m.last()
	w.size += size
	switch {
	case w.left == nil:
		w.left, w.end = m, end
	case m.next == nil && len(w.end.b)+size <= keptBuffer:
		w.end.b = append(w.end.b, m.b...)
		m.release()
	default:
		w.end.next, w.end = m, end
	}
}

func (m *buffer) writeTo(conn io.Writer) error {
	if m.next == nil {
		_, err := conn.Write(m.b)
		return err
	}
	var all net.Buffers
	for ; m != nil; m = m.next {
		all = append(all, m.b)
	}
	_, err := all.WriteTo(conn)
	return err
}
