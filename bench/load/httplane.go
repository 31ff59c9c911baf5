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
// are busy, a request waits for the first free one, and the later requests wait behind it. An ended
// connection is dialed again, but not for ever.
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
	alive int         // of conns, those that still dial
	last  error       // why one was
}

// httpConn is a connection, and those that come after it. Its goroutine dials and reads.
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
		conn, err := l.take(a)
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

// take has a connection serve an attempt; it is nil when none is free now, an error when none ever will be.
func (l *httpLane) take(a attempt) (net.Conn, error) {
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

// answered is the attempt that a connection served, if any. It is free for others then, unless it has ended.
func (l *httpLane) answered(c *httpConn, ended bool) attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := c.open
	c.open = nil
	if a == nil { // bytes or an end without a request
		l.free = slices.DeleteFunc(l.free, func(f *httpConn) bool { return f == c })
	} else if !ended {
		l.free = append(l.free, c)
		l.poke()
	}
	return a
}

func (l *httpLane) poke() {
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
	l.poke()
	return nil
}

// A connection that ended is dialed again at once if it has served a request, else after a pause that
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
			c.lane.giveUp(err)
			return
		}
		useful, after = false, 0
		err = c.dial()
		if err == nil {
			useful, after, err = c.read()
		}
	}
}

func (l *httpLane) giveUp(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive--
	l.last = why
	l.poke()
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

// read reads answers until the connection ends. It was useful when there was one. after is when the server
// wants to see the next connection.
func (c *httpConn) read() (useful bool, after time.Duration, err error) {
	conn := c.conn
	defer conn.Close()
	for {
		got, err := c.in.next()
		if err == nil && c.in.Buffered() > 0 {
			err = errUnasked
		}
		a := c.lane.answered(c, err != nil || got.last)
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

// render writes n requests to a server as they are sent to it.
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
