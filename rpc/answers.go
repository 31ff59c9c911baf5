package rpc

import (
	"io"
	"sync"
)

// buffers are what messages are put together in.
var buffers = sync.Pool{New: func() any { return &buffer{make([]byte, 0, smallBuffer)} }}

type buffer struct{ b []byte }

// release gives a buffer back, if it is not a large one.
func (b *buffer) release() {
	if cap(b.b) <= keptBuffer {
		b.b = b.b[:0]
		buffers.Put(b)
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
	for w.busy && w.left != nil && len(w.left.b) > keptBuffer {
		w.room.Wait()
	}
	if w.failed != nil {
		return w.failed
	}
	if w.busy {
		if w.left == nil {
			w.left = m
			return nil
		}
		w.left.b = append(w.left.b, m.b...)
		m.release()
		return nil
	}
	w.busy = true
	for m != nil && w.failed == nil {
		w.mu.Unlock()
		_, err := w.conn.Write(m.b)
		m.release()
		w.mu.Lock()
		if err != nil {
			w.failed = err
			_ = w.conn.Close() // the error that counts is the other
		}
		m, w.left = w.left, nil
		w.room.Broadcast()
	}
	w.busy = false
	return w.failed
}
