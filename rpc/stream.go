package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	stdrpc "net/rpc"
	"time"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"
	msgpackrpc "github.com/hashicorp/net-rpc-msgpackrpc/v2"

	"berth/internal/codec"
	"berth/structs"
)

// maxHead is the maximum size of the header of an answer: the text of an error, and its other fields.
const maxHead = 2 * structs.MaxErrorText

// stream carries calls over one stream of a session, one after another. It is the codec of
// net-rpc-msgpackrpc, between the messages of the stream: a request is written in one chunk, and an answer is
// read whole, up to a limit, before it is decoded.
//
// The Close of that codec races with its reader, so no code calls it: the owner closes conn.
type stream struct {
	*msgpackrpc.MsgpackCodec
	conn    net.Conn
	in      *messages
	answers int          // the most bytes of the payload of one answer
	head    bytes.Reader // of an answer, which the codec reads
	out     bytes.Buffer // the request that the codec has written
}

// memory is the connection of a codec whose messages are in memory.
type memory struct {
	*bytes.Reader
	io.Writer
}

// Close does nothing: memory has no end that could be closed.
func (memory) Close() error { return nil }

func newStream(conn net.Conn, answers int64) *stream {
	st := &stream{
		conn:    conn,
		in:      newMessages(conn, answers),
		answers: int(answers),
	}
	st.MsgpackCodec = msgpackrpc.NewCodecFromHandle(false, false,
		memory{&st.head, &st.out}, codec.Handle)
	return st
}

// WriteRequest writes a request. The codec gets the payload encoded, by the methods of its type if it has
// any.
func (st *stream) WriteRequest(head *stdrpc.Request, req any) (err error) {
	payload := buffers.Get().(*buffer)
	defer payload.release()
	payload.b, err = codec.Append(payload.b, req)
	if err == nil {
		err = st.MsgpackCodec.WriteRequest(head, msgpack.Raw(payload.b))
	}
	if err != nil {
		return structs.Internalf("calling %s: %w", head.ServiceMethod, err)
	}
	_, err = st.conn.Write(st.out.Bytes())
	st.out.Reset()
	if st.out.Cap() > keptBuffer {
		st.out = bytes.Buffer{}
	}
	return err
}

// ReadResponseHeader reads the head of an answer.
func (st *stream) ReadResponseHeader(head *stdrpc.Response) error {
	st.in.max = maxHead
	b, err := st.in.next()
	if err != nil {
		return err
	}
	st.head.Reset(b)
	return st.MsgpackCodec.ReadResponseHeader(head)
}

// ReadResponseBody reads the payload of an answer into resp; nil drops it.
func (st *stream) ReadResponseBody(resp any) error {
	st.in.max = st.answers
	return st.in.read(resp)
}

// OneCall is the only call of a connection.
type OneCall struct {
	Method    string
	Req, Resp any
	Answers   int64 // the most bytes of the answer
}

// CallOnce makes one call over a connection that serves plain net/rpc. The caller closes the connection
// afterwards. The error is unavailable or timeout if the connection fails.
func CallOnce(ctx context.Context, conn net.Conn, c OneCall) error {
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	err := newStream(conn, c.Answers).call(c.Method, c.Req, c.Resp)
	var remote *structs.Error
	if err == nil || errors.As(err, &remote) {
		return err
	}
	return callError(ctx, c.Method, err)
}

// call makes one call. An error of the other end, or of the request itself, is a *structs.Error; any other
// is the transport's.
func (st *stream) call(method string, req, resp any) error {
	err := msgpackrpc.CallWithCodec(st, method, req, resp)
	var remote stdrpc.ServerError
	switch {
	case !errors.As(err, &remote):
		return err
	case st.in.lost: // the connection broke between the head and the payload
		return errLost
	}
	return structs.ErrorFromWire(string(remote))
}
