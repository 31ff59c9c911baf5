// Package httpshed refuses HTTP requests at the connection, before net/http has seen them: to be told that a
// server has too much to do must not cost it half of what an answer does.
//
// Its laws:
//
//   - What net/http gets are whole requests that nobody has touched. A request is either answered here, and
//     then it never hears of it, or passed on to the last byte.
//   - A request is answered here only where one begins for sure: net/http waits for it, and all that was passed on
//     before were whole requests that it has answered (see Conn). A connection of which that is not known
//     any more is left alone for good.
//   - Only what is exactly one head that can be understood in one way is answered here (parse). In any doubt it is
//     passed on: it can still be refused further on.
//   - While nothing is refused it costs a look at the gates and one for the end of the head.
//   - It starts no goroutine; who is answered holds up nobody but their own connection, and that not for long.
//
// Which requests may be refused and what the answer is, is left to its Config; how many, to its gates.
package httpshed

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"berth/internal/loadshed"
)

// Gate lets a read in, or says after how long it may come again (loadshed.Gate).
type Gate interface {
	Admit() (again time.Duration, ok bool)
}

// Config is what a server refuses, and how. Its times are those of the http.Server.
type Config struct {
	Idle time.Duration // how long a connection is kept without a request, more than 0
	Head time.Duration // how long a head may take to arrive, more than 0
	// Refuses reports whether any reads are refused as of now; if not, whoever is further on asks the gates
	// instead. nil refuses none ever.
	Refuses func() bool
	// GateOf is the gate that decides on a GET of a target, path and query; nil is of one that may not be
	// refused. It must not keep the target.
	GateOf func(target []byte) Gate
	// Refusal appends the whole answer to a request that is refused.
	Refusal func(b []byte, again time.Duration) []byte
	// TurnAway appends the whole answer to a connection that is one too many. It says that the connection closes.
	TurnAway func(b []byte) []byte
}

// Listen wraps the connections that a listener accepts: they are *Conn. The server that serves them has to call
// Conn.Context from its ConnContext and Conn.Changed from its ConnState.
func (c *Config) Listen(ln net.Listener) net.Listener { return &listener{Listener: ln, config: c} }

type listener struct {
	net.Listener
	config *Config
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: conn, config: l.config, begins: true, isNew: true}, nil
}

// Conn is a connection of an http.Server. Its reads are made one after another, as net/http makes them, and its
// state changes between them.
//
// Where a request begins is known by counting: of each request it is known after its first bytes how long it is
// (extent), and when net/http has answered it and waits for the next one, exactly so many must have been read. Or
// one more: while it answers net/http reads a byte ahead, to hear when its client goes away. That one is lost to
// us, and so the request that begins with it is passed on.
type Conn struct {
	net.Conn
	config *Config
	ticket loadshed.Ticket

	begins bool   // what is read next begins a request
	isNew  bool   // no request was answered by net/http yet
	away   bool   // it is one too many
	taken  bool   // by somebody else, who may read as they like
	length int64  // of the request under way, -1 if it is not known
	read   int64  // of it
	ahead  []byte // the byte of the next request that net/http has read already

	writeBy  time.Time // the deadline of answers, if it is set
	extended time.Time // when the deadline of reads was moved
}

// Context is the context of the connection's requests: it says which were let in here.
func (c *Conn) Context(ctx context.Context) context.Context {
	if c.config.Refuses == nil {
		return ctx
	}
	return c.ticket.With(ctx)
}

// Changed tells that the connection is in another state.
func (c *Conn) Changed(state http.ConnState) {
	switch state {
	case http.StateIdle:
		c.ticket.Set(false)
		c.idle()
	case http.StateHijacked:
		c.begins, c.taken = false, true
	}
}

// idle finds out whether the next request begins with what is read next.
func (c *Conn) idle() {
	more := c.read - c.length
	c.begins, c.isNew = c.length >= 0 && more == int64(len(c.ahead)), false
	if !c.begins {
		c.length = -1 // for good
	}
}

// TurnAway has whoever asks for something over the connection be told that it is one too many, once. It is
// called before anything is read.
func (c *Conn) TurnAway() { c.away = true }

// Read reads what net/http is to see.
func (c *Conn) Read(p []byte) (n int, err error) {
	switch {
	case c.taken:
		return c.Conn.Read(p)
	case !c.begins:
		return c.readOn(p)
	case c.away:
		return 0, c.turnAway(p)
	}
	return c.readHead(p)
}

// readOn reads more of a request, or the first byte of the next one.
func (c *Conn) readOn(p []byte) (n int, err error) {
	n, err = c.Conn.Read(p)
	if c.read == c.length && n == 1 {
		c.ahead = append(c.ahead, p[0])
	}
	c.read += int64(n)
	return n, err
}

// readHead reads what begins a request, after those that are refused.
func (c *Conn) readHead(p []byte) (n int, err error) {
	for {
		if n, err = c.Conn.Read(p); n == 0 {
			return 0, err
		}
		if err != nil || len(c.ahead) > 0 || c.config.Refuses == nil || !c.config.Refuses() {
			break
		}
		again, refused := c.refuses(p[:n])
		if !refused {
			break
		}
		// The request has been dealt with, so p is room for its answer.
		if !c.answer(c.config.Refusal(p[:0:len(p)], again)) {
			return 0, io.EOF
		}
	}
	c.begins = false
	c.measure(p[:n])
	c.passOn()
	return n, err
}

// measure finds out how long the request is that b is passed on of.
func (c *Conn) measure(b []byte) {
	if len(c.ahead) > 0 {
		b, c.ahead = append(c.ahead, b...), nil
	}
	c.read, c.length = int64(len(b)), -1
	if c.config.Refuses != nil {
		c.length = extent(b)
	}
}

// refuses decides on what was read. What is let in here nobody asks the gate for again.
func (c *Conn) refuses(b []byte) (again time.Duration, refused bool) {
	h, ok := parse(b)
	if !ok || !h.plainGET() {
		return 0, false
	}
	gate := c.config.GateOf(h.target)
	if gate == nil {
		return 0, false
	}
	again, ok = gate.Admit()
	c.ticket.Set(ok)
	return again, !ok
}

// writeTime is how long somebody may take to take in what they are told here, or half of it: to move a deadline
// for each answer would be a part of its cost.
const writeTime = 10 * time.Second

// answer writes an answer in net/http's stead; whoever is told something has not been idle. It returns false, and
// the connection is closed, when the answer could not be written whole.
func (c *Conn) answer(b []byte) bool {
	now := time.Now()
	if c.writeBy.Sub(now) < writeTime/2 {
		c.writeBy = now.Add(writeTime)
		_ = c.Conn.SetWriteDeadline(c.writeBy) // fails as the write will
	}
	if now.Sub(c.extended) > c.config.Idle/8 {
		c.extended = now
		_ = c.Conn.SetReadDeadline(now.Add(c.config.Idle)) // fails as the next read will
	}
	if _, err := c.Conn.Write(b); err != nil {
		_ = c.Conn.Close() // half an answer may be out: nothing can follow it
		return false
	}
	return true
}

// passOn leaves the deadlines as net/http expects them where it reads on. It sets that of a head itself, but for
// the first one it did so before it read.
func (c *Conn) passOn() {
	if !c.writeBy.IsZero() {
		c.writeBy = time.Time{}
		_ = c.Conn.SetWriteDeadline(time.Time{})
	}
	if c.isNew && !c.extended.IsZero() {
		_ = c.Conn.SetReadDeadline(time.Now().Add(c.config.Head))
	}
}

// The time and the bytes for which a connection is read on whose request was refused before its end, until its
// client closes it. To close it while something is still coming in would take the answer away from them.
const (
	lingerTime = time.Second
	lingerMost = 256 << 10
)

// turnAway waits for a head, whatever it asks for, answers, and closes the connection. The end is what it returns.
func (c *Conn) turnAway(p []byte) error {
	n := 0
	for n < len(p) && headEnd(p[:n]) < 0 {
		m, err := c.Conn.Read(p[n:])
		if m == 0 {
			return err
		}
		n += m
	}
	whole := extent(p[:n]) == int64(n)
	_ = c.Conn.SetDeadline(time.Now().Add(lingerTime))
	_, err := c.Conn.Write(c.config.TurnAway(p[:0:len(p)]))
	if !whole && err == nil && c.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, lingerMost)
	}
	_ = c.Conn.Close()
	return io.EOF
}

// CloseWrite says that nothing more will be written. net/http looks for it.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// ReadFrom writes all there is to read, past this process where the system can. net/http looks for it.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	if w, ok := c.Conn.(io.ReaderFrom); ok {
		return w.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}
