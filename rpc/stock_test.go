package rpc

import (
	stdrpc "net/rpc"

	"berth/internal/codec"
)

// appendRequestHead appends the head of a request, as a stock client writes it.
func appendRequestHead(b []byte, method string, seq uint64) []byte {
	b, err := codec.Append(b, &stdrpc.Request{ServiceMethod: method, Seq: seq})
	if err != nil {
		panic(err)
	}
	return b
}

// readHead reads the head of an answer, as a stock client reads it.
func readHead(in *messages) (head stdrpc.Response, err error) {
	b, err := in.next()
	if err == nil {
		err = codec.Decode(b, &head)
	}
	return head, err
}

// readAnswer reads an answer and drops its payload.
func readAnswer(in *messages) (head stdrpc.Response, err error) {
	head, err = readHead(in)
	if err == nil {
		err = in.read(nil)
	}
	return head, err
}
