package rpc

import (
	stdrpc "net/rpc"

	"github.com/tinylib/msgp/msgp"

	"berth/internal/codec"
)

// The headers of net/rpc's messages, as its Request and Response structs are in msgpack. The serving half
// codes them without reflection, because they are half of a small call. A header in an unusual encoding is
// read by reflection.

// requestHeader precedes the payload of a request. The method's name is valid as long as the bytes that it
// was read from.
type requestHeader struct {
	method []byte
	seq    uint64
}

// responseHeader precedes the payload of an answer.
type responseHeader struct {
	method, failure string
	seq             uint64
}

func (h *responseHeader) append(b []byte) []byte {
	b = msgp.AppendMapHeader(b, 3)
	b = msgp.AppendString(b, "ServiceMethod")
	b = msgp.AppendString(b, h.method)
	b = msgp.AppendString(b, "Seq")
	b = msgp.AppendUint64(b, h.seq)
	b = msgp.AppendString(b, "Error")
	return msgp.AppendString(b, h.failure)
}

func (h *requestHeader) decode(b []byte) error {
	if h.decodeMap(b) == nil {
		return nil
	}
	var std stdrpc.Request
	err := codec.Decode(b, &std)
	if err != nil {
		return err
	}
	h.method = []byte(std.ServiceMethod)
	h.seq = std.Seq
	return nil
}

// decodeMap reads a map whose keys are strings.
func (h *requestHeader) decodeMap(b []byte) error {
	n, b, err := msgp.ReadMapHeaderBytes(b)
	for ; n > 0 && err == nil; n-- {
		var name []byte
		name, b, err = msgp.ReadStringZC(b)
		if err != nil {
			return err
		}

		switch string(name) {
		case "ServiceMethod":
			h.method, b, err = msgp.ReadStringZC(b)
		case "Seq":
			h.seq, b, err = msgp.ReadUint64Bytes(b)
		default:
			b, err = msgp.Skip(b)
		}
	}
	return err
}
