package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// httpLane sends requests to one server by reused connections, one request at a time on each. If all of them
// are busy, a request waits for the first free one, and the later requests wait behind it. It
// dials an ended connection again, for a bounded time.
type httpLane struct {
	addr  string
	wire  [][]byte // the bytes of the requests, in turn
	ctx   context.Context
	end   context.CancelFunc
	wg    sync.WaitGroup
	freed chan struct{} // a connection is free, or none will be any more

	mu    sync.Mutex
	conns []*httpConn
	free  []*httpConn // the one that was used last is the next
	alive int         // of conns, how many still dial
	last  error       // why one was
}

// httpConn is a connection and its successors. Its goroutine dials and reads.
type httpConn struct {
	lane *httpLane
	in   *answerReader

	// The lane's lock guards both.
	conn net.Conn
	open attempt // the one in flight
}

// openHTTPLane opens a number of connections for requests.
func openHTTPLane(addr string, conns int, wire [][]byte) (*httpLane, error) {
	l := &httpLane{
		addr:  addr,
		wire:  wire,
		freed: make(chan struct{}, 1),
	}
	l.ctx, l.end = context.WithCancel(context.Background())
	for range conns {
		c := &httpConn{lane: l}
		err := c.dial()
		if err != nil {
			l.close()
			return nil, err
		}
		l.mu.Lock()
		l.conns = append(l.conns, c)
		l.alive++
		l.mu.Unlock()
		l.wg.Go(c.run)
	}
	return l, nil
}

// close ends the connections. Open requests fail.
func (l *httpLane) close() {
	l.end()
	l.mu.Lock()
	for _, c := range l.conns {
		_ = c.conn.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
}

func (l *httpLane) flush() error { return nil }

func (l *httpLane) send(ctx context.Context, n int, a attempt) error {
	for {
		conn, err := l.assign(a)
		if err != nil {
			return err
		}
		if conn != nil {
			if _, err := conn.Write(l.wire[n%len(l.wire)]); err != nil {
				_ = conn.Close() // the reader reports it to the attempt
			}
			return nil
		}
		select {
		case <-l.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// assign gives an attempt to a free connection. It returns nil if none is free, and an error if all are lost.
func (l *httpLane) assign(a attempt) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) == 0 {
		if l.alive == 0 {
			return nil, fmt.Errorf("all connections to %s ended: %w", l.addr, l.last)
		}
		return nil, nil
	}
	c := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	a.sending() // before an answer is possible
	c.open = a
	return c.conn, nil
}

// releaseConn returns the attempt that a connection served, if any, and frees the connection unless it has
// ended.
func (l *httpLane) releaseConn(c *httpConn, ended bool) attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := c.open
	c.open = nil
	if a == nil { // bytes or an end without a request
		l.free = slices.DeleteFunc(l.free, func(f *httpConn) bool { return f == c })
	} else if !ended {
		l.free = append(l.free, c)
		l.notify()
	}
	return a
}

func (l *httpLane) notify() {
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// dial opens the connection, unless the lane is closed.
func (c *httpConn) dial() error {
	l := c.lane
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(l.ctx, "tcp", l.addr)
	if err != nil {
		return err
	}
	raw, err := newRawConn(conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	err = errors.Join(err, l.ctx.Err())
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	c.conn = raw
	if c.in == nil {
		c.in = newAnswerReader(raw)
	} else {
		c.in.Reset(raw)
	}
	l.free = append(l.free, c)
	l.notify()
	return nil
}

// A connection that has served a request is dialed again at once after its end, any other after a pause that
// doubles.
const (
	mostDials  = 8 // in a row that were of no use
	firstPause = 5 * time.Millisecond
)

// run reads answers and dials again, until the connection is unusable or the lane is closed.
func (c *httpConn) run() {
	useful, after, err := c.read()
	for fails := 0; ; {
		fails++
		if useful {
			fails = 0
		} else {
			after = firstPause << fails
		}
		if fails == mostDials || !c.lane.pause(after) {
			c.lane.noteLost(err)
			return
		}
		useful, after = false, 0
		err = c.dial()
		if err == nil {
			useful, after, err = c.read()
		}
	}
}

func (l *httpLane) noteLost(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive--
	l.last = why
	l.notify()
}

// pause returns false if the lane is closed meanwhile.
func (l *httpLane) pause(d time.Duration) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-l.ctx.Done():
		}
	}
	return l.ctx.Err() == nil
}

var errUnasked = errors.New("the server sent an answer without a request")

// read reads answers until the connection ends. useful reports whether there was an answer. after is the
// retry time that the server gave.
func (c *httpConn) read() (useful bool, after time.Duration, err error) {
	conn := c.conn
	defer conn.Close()
	for {
		got, err := c.in.next()
		if err == nil && c.in.Buffered() > 0 {
			err = errUnasked
		}
		a := c.lane.releaseConn(c, err != nil || got.last)
		switch {
		case a == nil:
			return useful, 0, cmp.Or(err, errUnasked)
		case err != nil:
			err = fmt.Errorf("the connection ended without an answer: %w", err)
			a.answered(err)
			return useful, 0, err
		}
		a.answered(got.err())
		useful = true
		if !got.last {
			continue
		}
		after = got.after
		if after > 0 {
			after += rand.N(after) // berth's clients vary their delay, too
		}
		return true, after, nil
	}
}

// render returns the bytes of n requests to a server.
func render(addr string, n int, request func(n int) (*http.Request, error)) (wire [][]byte, err error) {
	for i := range n {
		req, err := request(i)
		if err != nil {
			return nil, err
		}
		req.URL.Scheme = "http"
		req.URL.Host = addr
		var b bytes.Buffer
		if err := req.Write(&b); err != nil {
			return nil, err
		}
		wire = append(wire, b.Bytes())
	}
	return wire, nil
}
