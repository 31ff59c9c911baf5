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

// answering is a stream whose other end reads one request, answers with these bytes and closes the
// connection.
func answering(t *testing.T, limit int64, answer []byte) *stream {
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
	t.Cleanup(func() { _ = near.Close(); <-done })
	return newStream(near, limit)
}

// answerOf is the bytes of an answer.
func answerOf(t *testing.T, head stdrpc.Response, payload any) []byte {
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
	claim := answerOf(t, stdrpc.Response{}, nil)
	claim = append(claim[:len(claim)-1], "\x81\xa4Text\xdb"...)
	for name, answer := range map[string][]byte{
		"a long payload":       answerOf(t, stdrpc.Response{}, &echo{text}),
		"a payload that lies":  binary.BigEndian.AppendUint32(claim, 0xf0000000),
		"a long head":          answerOf(t, stdrpc.Response{Error: text}, nil),
		"a head of long parts": answerOf(t, stdrpc.Response{ServiceMethod: text}, &echo{}),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := answering(t, limit, answer).call(echoMethod.Name, &echo{}, &echo{})
		runtime.ReadMemStats(&after)
		if err == nil || errors.As(err, new(*structs.Error)) {
			t.Errorf("%s: %v, want an error of the transport", name, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 8*limit {
			t.Errorf("%s: %d MiB were allocated", name, grown>>20)
		}
	}
}

func TestStream_DistinguishesALostConnectionFromAnAnswer(t *testing.T) {
	whole := answerOf(t, stdrpc.Response{Error: "conflict: no"}, &echo{"a text"})
	err := answering(t, 1<<20, whole).call(echoMethod.Name, &echo{}, &echo{})
	if !structs.IsKind(err, structs.KindConflict) || err.Error() != "no" {
		t.Errorf("the whole answer: %v", err)
	}
	for n := range whole {
		err := answering(t, 1<<20, whole[:n]).call(echoMethod.Name, &echo{}, &echo{})
		if err == nil || errors.As(err, new(*structs.Error)) {
			t.Fatalf("%d of %d bytes: %v, want an error of the transport", n, len(whole), err)
		}
	}
}

func TestStream_AnswersThatDoNotDecodeAreNoAnswers(t *testing.T) {
	for name, answer := range map[string][]byte{
		"a payload of another type": answerOf(t, stdrpc.Response{}, []int{1}),
		"a head of another type":    {0xa1, 'x', 0x80},
		"no msgpack":                bytes.Repeat([]byte{0xc1}, 10),
	} {
		err := answering(t, 1<<20, answer).call(echoMethod.Name, &echo{}, &echo{})
		if err == nil || errors.As(err, new(*structs.Error)) || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStream_ARequestThatDoesNotEncodeIsNotSent: the error is not one of the transport, and the next call
// works over the same stream.
func TestStream_ARequestThatDoesNotEncodeIsNotSent(t *testing.T) {
	st := answering(t, 1<<20, answerOf(t, stdrpc.Response{}, &echo{"here"}))
	err := st.call(echoMethod.Name, complex(1, 2), &echo{})
	if !structs.IsKind(err, structs.KindInternal) || !errors.As(err, new(*structs.Error)) {
		t.Errorf("got %v", err)
	}
	var got echo
	if err := st.call(echoMethod.Name, &echo{}, &got); err != nil || got.Text != "here" {
		t.Errorf("the next call: %q, %v", got.Text, err)
	}
}
