package rpc

import (
	"io"
	"net"
	"sync"

	"berth/structs"
)

// buffers holds the buffers of messages.
var buffers = sync.Pool{New: func() any {
	return &buffer{b: make([]byte, 0, smallBuffer)}
}}

// buffer is a message. A long message continues in the buffers after it.
type buffer struct {
	b    []byte
	next *buffer
}

// release returns the buffers of a message for further use, except large ones.
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

// last returns the buffer in which a message ends, and the length of the message.
func (m *buffer) last() (end *buffer, size int) {
	for end = m; end.next != nil; end = end.next {
		size += len(end.b)
	}
	return end, size + len(end.b)
}

// chunk is the length at which a long message continues in a further buffer.
const chunk = keptBuffer - 4<<10

// Response is a message to which an answer is appended, in chunks.
type Response struct {
	last   *buffer
	before int64 // bytes of the chunks before the last
	limit  int64 // the most bytes of all chunks
}

// Bytes returns the last chunk, to be appended to.
func (a *Response) Bytes() []byte {
	return a.last.b
}

// Put takes the last chunk with more appended to it, and begins the next one if it is full. It rejects an
// answer above the limit: the other end would not read it, and this one would have all of it in memory.
func (a *Response) Put(b []byte) error {
	a.last.b = b
	err := responseFits(a.before+int64(len(b)), a.limit)
	if err != nil {
		return err
	}
	if len(b) >= chunk {
		a.Next()
	}
	return nil
}

// responseFits rejects an answer of more bytes than the other end reads.
func responseFits(size, limit int64) error {
	if size <= limit {
		return nil
	}
	return structs.Invalidf("the answer has more than %d bytes: request less, or page by page", limit)
}

// Next begins the next chunk. The chunks before it may be changed in place from now on.
func (a *Response) Next() {
	a.before += int64(len(a.last.b))
	a.last.next = buffers.Get().(*buffer)
	a.last = a.last.next
	if cap(a.last.b) < keptBuffer {
		a.last.b = make([]byte, 0, keptBuffer)
	}
}

// writer writes whole messages to one connection, for many goroutines. A message that comes alone is written
// at once. Messages that come while another one is written are queued, and then written together with one
// system call.
type writer struct {
	conn io.WriteCloser

	mu     sync.Mutex
	shrunk sync.Cond // the queue has become shorter
	busy   bool      // a goroutine writes
	queue  *buffer   // messages that arrived meanwhile, nil for none
	end    *buffer   // the last buffer of the queue
	size   int       // bytes of the queue
	failed error
}

func newWriter(conn io.WriteCloser) *writer {
	w := &writer{conn: conn}
	w.shrunk.L = &w.mu
	return w
}

// write writes a message, or queues it if another one is being written; then an error is not known yet. After
// an error the connection is closed and nothing more is written. While the queue is long write waits, so that
// a caller that does not read delays its own requests.
func (w *writer) write(m *buffer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.enqueue(m)
	return w.send()
}

// keep queues a message for the next write or flush. It waits as write does.
func (w *writer) keep(m *buffer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.enqueue(m)
	if w.size > keptBuffer {
		_ = w.send() // the next write returns the error
	}
}

// flush writes the queue.
func (w *writer) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.send() // the next write returns the error
}

// send writes the queue, unless another goroutine does.
func (w *writer) send() error {
	if w.busy {
		return nil
	}

	m := w.takeQueue()
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

		m = w.takeQueue()
		w.shrunk.Broadcast()
	}

	w.busy = false
	return w.failed
}

// takeQueue empties the queue and returns it.
func (w *writer) takeQueue() *buffer {
	m := w.queue
	w.queue = nil
	w.end = nil
	w.size = 0
	return m
}

// enqueue adds a message to the queue. It waits while the queue is long.
func (w *writer) enqueue(m *buffer) {
	for w.busy && w.size > keptBuffer {
		w.shrunk.Wait()
	}
	end, size := m.last()
	w.size += size
	switch {
	case w.queue == nil:
		w.queue, w.end = m, end
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
