package rpc

import (
	"bytes"
	"math"
	stdrpc "net/rpc"
	"reflect"
	"strings"
	"testing"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"berth/internal/codec"
)

// dialects returns ways in which a stock client may write msgpack.
func dialects() map[string]*msgpack.MsgpackHandle {
	arrays := &msgpack.MsgpackHandle{}
	arrays.StructToArray = true
	extended := &msgpack.MsgpackHandle{WriteExt: true}
	extended.RawToString = true
	return map[string]*msgpack.MsgpackHandle{
		"berth's": codec.Handle,
		"old":     {},
		"new":     extended,
		"arrays":  arrays,
	}
}

func encodeAs(t *testing.T, h *msgpack.MsgpackHandle, v any) (b []byte) {
	t.Helper()
	if err := msgpack.NewEncoderBytes(&b, h).Encode(v); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHeaders_AreThoseOfStockPrograms: the server reads the headers that stock programs write, and they read
// the headers that the server writes.
func TestHeaders_AreThoseOfStockPrograms(t *testing.T) {
	seqs := []uint64{0, 1, 127, 128, 255, 1 << 16, 1 << 32, math.MaxUint64}
	for name, h := range dialects() {
		for _, length := range []int{0, 13, 31, 32, 70_000} {
			for _, seq := range seqs {
				method := strings.Repeat("m", length)
				request := stdrpc.Request{ServiceMethod: method, Seq: seq}
				var q requestHeader
				err := q.decode(encodeAs(t, h, &request))
				if err != nil || string(q.method) != method || q.seq != seq {
					t.Fatalf("%s: header of %q %d reads as %q %d, %v", name, method, seq, q.method, q.seq, err)
				}
				head := responseHeader{method: method, seq: seq, failure: "no: " + method}
				var got stdrpc.Response
				err = msgpack.NewDecoderBytes(head.append(nil), h).Decode(&got)
				want := stdrpc.Response{ServiceMethod: method, Seq: seq, Error: head.failure}
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("%s: a stock program reads %+v, %v; want %+v", name, got, err, want)
				}
			}
		}
	}
}

func TestHeaders_MayHoldMoreInAnyOrder(t *testing.T) {
	b := encodeAs(t, codec.Handle, map[string]any{
		"A": []any{1, map[string]int{"x": 1}}, "Seq": int64(7), "ServiceMethod": "Test.Echo", "Z": nil,
	})
	var q requestHeader
	if err := q.decode(b); err != nil || string(q.method) != "Test.Echo" || q.seq != 7 {
		t.Errorf("got %+v, %v; want Test.Echo 7", q, err)
	}
	var n requestHeader
	err := n.decode(encodeAs(t, codec.Handle, map[string]any{"ServiceMethod": nil, "Seq": nil}))
	if err != nil || len(n.method) > 0 {
		t.Errorf("a header of nil values reads as %+v, %v; want an empty one", n, err)
	}
	if err := q.decode([]byte{0xa1, 'x'}); err == nil {
		t.Error("a string decodes as a header, want an error")
	}
}

// FuzzHeaders compares the result for a header with that of the stock decoder.
func FuzzHeaders(f *testing.F) {
	f.Add(appendRequestHead(nil, "Node.Register", 7))
	f.Add((&responseHeader{method: "a", seq: 1 << 40, failure: "no"}).append(nil))
	f.Add([]byte{0x92, 1, 2})
	f.Add([]byte{0x82, 0xa3, 'S', 'e', 'q', 0xff, 0xa1, 'x', 0xc0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := newMessages(bytes.NewReader(b), 1<<16)
		whole, err := m.next()
		if err != nil {
			return
		}
		var want stdrpc.Request
		var got requestHeader
		if codec.Decode(whole, &want) != nil {
			return
		}
		err = got.decode(whole)
		if err != nil || string(got.method) != want.ServiceMethod || got.seq != want.Seq {
			t.Fatalf("%x reads as %q %d, %v; want %+v", whole, got.method, got.seq, err, want)
		}
	})
}
