package rpc

import (
	"encoding/binary"
	"net"
)

// frames is the connection below a yamux session. yamux writes the head of a frame and then its body, from
// one goroutine. frames keeps the head until the body follows, and writes both together: a small call takes
// one system call at either end instead of two.
type frames struct {
	net.Conn
	head []byte // of a frame whose body follows
	buf  []byte
}

// The head of a frame (yamux specification, "Framing").
const (
	frameHead   = 12
	frameType   = 1 // where its type is
	frameData   = 0 // the type of a frame with a body
	frameLength = 8 // where the length of the body is
)

// smallFrame is the most bytes of a body that is copied behind its head.
const smallFrame = 16 << 10

// Write writes a frame, a head alone or a body.
func (f *frames) Write(p []byte) (int, error) {
	if len(f.head) == 0 {
		announcesBody := len(p) == frameHead &&
			p[frameType] == frameData &&
			binary.BigEndian.Uint32(p[frameLength:]) > 0
		if announcesBody {
			f.buf = append(f.buf[:0], p...)
			f.head = f.buf
			return len(p), nil
		}
		return f.Conn.Write(p)
	}

	head := f.head
	f.head = nil
	if len(p) <= smallFrame {
		f.buf = append(f.buf, p...)
		n, err := f.Conn.Write(f.buf)
		return max(0, n-len(head)), err
	}

	both := net.Buffers{head, p}
	n, err := both.WriteTo(f.Conn)
	return max(0, int(n)-frameHead), err
}
