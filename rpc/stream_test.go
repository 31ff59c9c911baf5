package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	stdrpc "net/rpc"
	"runtime"
	"strings"
	"testing"

	"berth/internal/codec"
	"berth/structs"
)

// streamWithAnswer returns a stream whose other end reads one request, writes these bytes and closes the
// connection.
func streamWithAnswer(t *testing.T, limit int64, answer []byte) *stream {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer far.Close()
		in := newMessages(far, 1<<20)
		for range 2 {
			if _, err := in.next(); err != nil {
				return
			}
		}
		_, _ = far.Write(answer)
	}()
	t.Cleanup(func() {
		_ = near.Close()
		<-done
	})
	return newStream(near, limit)
}

// encodeAnswer returns the bytes of an answer.
func encodeAnswer(t *testing.T, head stdrpc.Response, payload any) []byte {
	t.Helper()
	b, err := codec.Append(nil, &head)
	if err == nil {
		b, err = codec.Append(b, payload)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestStream_BoundsAnAnswerBeforeItDecodesIt(t *testing.T) {
	const limit = 1 << 20
	text := strings.Repeat("x", 4*limit)
	claim := encodeAnswer(t, stdrpc.Response{}, nil)
	claim = append(claim[:len(claim)-1], "\x81\xa4Text\xdb"...)
	for name, answer := range map[string][]byte{
		"a long payload":            encodeAnswer(t, stdrpc.Response{}, &echo{text}),
		"a payload of false length": binary.BigEndian.AppendUint32(claim, 0xf0000000),
		"a long error":              encodeAnswer(t, stdrpc.Response{Error: text}, nil),
		"a long method":             encodeAnswer(t, stdrpc.Response{ServiceMethod: text}, &echo{}),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := streamWithAnswer(t, limit, answer).call(echoMethod.Name, &echo{}, &echo{})
		runtime.ReadMemStats(&after)
		if err == nil || errors.As(err, new(*structs.Error)) {
			t.Errorf("%s: got %v, want an error of the transport", name, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 8*limit {
			t.Errorf("%s: %d MiB were allocated, want at most 8", name, grown>>20)
		}
	}
}

func TestStream_DistinguishesALostConnectionFromAnAnswer(t *testing.T) {
	whole := encodeAnswer(t, stdrpc.Response{Error: "conflict: no"}, &echo{"a text"})
	err := streamWithAnswer(t, 1<<20, whole).call(echoMethod.Name, &echo{}, &echo{})
	if !structs.IsKind(err, structs.KindConflict) || err.Error() != "no" {
		t.Errorf("the whole answer got %v, want the conflict", err)
	}
	for n := range whole {
		err := streamWithAnswer(t, 1<<20, whole[:n]).call(echoMethod.Name, &echo{}, &echo{})
		if err == nil || errors.As(err, new(*structs.Error)) {
			t.Fatalf("%d of %d bytes got %v, want an error of the transport", n, len(whole), err)
		}
	}
}

func TestStream_AnswersThatDoNotDecodeAreNoAnswers(t *testing.T) {
	for name, answer := range map[string][]byte{
		"a payload of another type": encodeAnswer(t, stdrpc.Response{}, []int{1}),
		"a head of another type":    {0xa1, 'x', 0x80},
		"no msgpack":                bytes.Repeat([]byte{0xc1}, 10),
	} {
		err := streamWithAnswer(t, 1<<20, answer).call(echoMethod.Name, &echo{}, &echo{})
		if err == nil || errors.As(err, new(*structs.Error)) || errors.Is(err, io.EOF) {
			t.Errorf("%s: got %v, want an error of the transport other than EOF", name, err)
		}
	}
}

// TestStream_ARequestThatDoesNotEncodeIsNotSent: the error is not one of the transport, and the next call
// works over the same stream.
func TestStream_ARequestThatDoesNotEncodeIsNotSent(t *testing.T) {
	st := streamWithAnswer(t, 1<<20, encodeAnswer(t, stdrpc.Response{}, &echo{"here"}))
	err := st.call(echoMethod.Name, complex(1, 2), &echo{})
	if !structs.IsKind(err, structs.KindInternal) || !errors.As(err, new(*structs.Error)) {
		t.Errorf("got %v, want internal", err)
	}
	var got echo
	if err := st.call(echoMethod.Name, &echo{}, &got); err != nil || got.Text != "here" {
		t.Errorf("the next call got %q, %v; want %q", got.Text, err, "here")
	}
}
