package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	stdrpc "net/rpc"
	"sync"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"

	msgpack "berth/internal/codec"
	"berth/rpc"
	"berth/structs"
)

// request is an RPC request: a method and its encoded body.
type request struct {
	method string
	body   []byte
}

// encode makes a request of a method.
func encode[Req, Resp any](m structs.Method[Req, Resp], req *Req) (request, error) {
	body, err := msgpack.Encode(req)
	return request{m.Name, body}, err
}

// rpcLane is one plain connection with many requests in flight. It costs less CPU than a client, because it
// offers twice the rate of a server.
type rpcLane struct {
	make func(n int) (request, error)
	conn net.Conn
	out  *bufio.Writer
	head map[string]*header // by method

	mu    sync.Mutex
	seq   uint64
	open  map[uint64]attempt
	broke error
	done  chan struct{}
}

// longestOffer bounds the time of one offer on a lane.
const longestOffer = time.Minute

func openLane(addr string, newRequest func(n int) (request, error)) (*rpcLane, error) {
	conn, err := dialRaw(rpc.Dial, addr)
	if err != nil {
		return nil, err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(longestOffer)); err != nil { // a server may stop reading
		_ = conn.Close()
		return nil, err
	}
	l := &rpcLane{
		make: newRequest,
		conn: conn,
		out:  bufio.NewWriterSize(conn, 1<<16),
		head: map[string]*header{},
		open: map[uint64]attempt{},
		done: make(chan struct{}),
	}
	go l.read()
	return l, nil
}

// close ends the connection. Open requests fail.
func (l *rpcLane) close() {
	_ = l.conn.Close()
	<-l.done
}

func (l *rpcLane) send(_ context.Context, n int, a attempt) error {
	a.sending()
	req, err := l.make(n)
	if err != nil {
		return err
	}
	head, err := l.header(req.method)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.seq++
	seq := l.seq
	err = l.broke
	if err == nil {
		l.open[seq] = a
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint64(head.bytes[head.at:], seq)
	if _, err := l.out.Write(head.bytes); err != nil {
		return err
	}
	_, err = l.out.Write(req.body)
	return err
}

func (l *rpcLane) flush() error { return l.out.Flush() }

// header is the encoded header of a request. at is the position of the number of the request.
type header struct {
	bytes []byte
	at    int
}

// header returns the header of the requests of a method.
func (l *rpcLane) header(method string) (*header, error) {
	if h := l.head[method]; h != nil {
		return h, nil
	}
	const probe = 1<<63 + 12345
	b, err := msgpack.Encode(&stdrpc.Request{ServiceMethod: method, Seq: probe})
	if err != nil {
		return nil, err
	}
	h := &header{b, bytes.Index(b, binary.BigEndian.AppendUint64(nil, probe))}
	if h.at < 0 {
		return nil, errors.New("the encoded header does not contain the number of the request")
	}
	l.head[method] = h
	return h, nil
}

// read reads answers until the connection ends.
func (l *rpcLane) read() {
	defer close(l.done)
	dec := codec.NewDecoder(bufio.NewReaderSize(l.conn, 1<<16), msgpack.Handle)
	for {
		var head stdrpc.Response
		err := dec.Decode(&head)
		if err == nil {
			err = dec.Decode(&leanResponse{})
		}
		if err != nil {
			l.fail(err)
			return
		}
		l.mu.Lock()
		a := l.open[head.Seq]
		delete(l.open, head.Seq)
		l.mu.Unlock()
		switch {
		case a == nil:
			l.fail(fmt.Errorf("an answer to request %d, which is not open", head.Seq))
			return
		case head.Error != "":
			a.answered(structs.ErrorFromWire(head.Error))
		default:
			a.answered(nil)
		}
	}
}

func (l *rpcLane) fail(err error) {
	l.mu.Lock()
	open := l.open
	l.open = nil
	l.broke = fmt.Errorf("the connection ended: %w", err)
	l.mu.Unlock()
	for _, a := range open {
		a.answered(l.broke)
	}
}
