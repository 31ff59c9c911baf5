package main

import (
	"errors"
	"io"
	"net"
	"syscall"
	"unsafe"
)

// rawConn is a TCP connection whose reads and writes are raw system calls, unknown to the scheduler of
// goroutines. They never block. To prepare for blocking calls thousands of times a second costs a third of
// the time of a load with one processor.
type rawConn struct {
	net.Conn
	raw syscall.RawConn
}

// errFull is the error of a connection whose other side does not read.
var errFull = errors.New("the server reads nothing more")

func newRawConn(conn net.Conn) (*rawConn, error) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	raw, err := c.SyscallConn()
	return &rawConn{conn, raw}, err
}

// Read reads the available bytes, as soon as there are some.
func (c *rawConn) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	var failed syscall.Errno
	err = c.raw.Read(func(fd uintptr) bool {
		n, failed = transfer(syscall.SYS_READ, fd, b)
		return failed != syscall.EAGAIN
	})
	switch {
	case err != nil:
		return 0, err
	case failed != 0:
		return 0, failed
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes all of b at once. Without enough buffer space the connection becomes unusable.
func (c *rawConn) Write(b []byte) (n int, err error) {
	var failed syscall.Errno
	err = c.raw.Control(func(fd uintptr) {
		n, failed = transfer(syscall.SYS_WRITE, fd, b)
	})
	switch {
	case err != nil:
		return 0, err
	case failed == syscall.EAGAIN || failed == 0 && n < len(b):
		return n, errFull
	case failed != 0:
		return 0, failed
	}
	return n, nil
}

// transfer reads into b or writes it, as far as that can be done at once.
func transfer(call, fd uintptr, b []byte) (int, syscall.Errno) {
	for {
		n, _, failed := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))),
			uintptr(len(b)))
		switch failed {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, failed
		}
	}
}
