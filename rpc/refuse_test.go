package rpc

import (
	"bytes"
	"context"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tinylib/msgp/msgp"

	"berth/internal/codec"
	"berth/structs"
)

// TestAGlanceIsRightOrSaysThatItIsNotEnough, whatever a request holds and however it is written.
func TestAGlanceIsRightOrSaysThatItIsNotEnough(t *testing.T) {
	type fields map[string]any
	for name, c := range map[string]struct {
		req          any
		stale, plain bool
	}{
		"a read":              {&structs.CSIVolumeGetRequest{ID: "v"}, false, true},
		"with all else":       {&structs.CSIVolumeListRequest{NodeID: "n", QueryOptions: structs.QueryOptions{Region: "r", MaxWait: 1, Prefix: "p", Filter: "f", PerPage: 7, NextToken: "t", Reverse: true, AuthToken: "a", Forwarded: true}}, false, true},
		"stale":               {&structs.CSIVolumeGetRequest{QueryOptions: structs.QueryOptions{AllowStale: true}}, true, true},
		"waits":               {&structs.CSIVolumeGetRequest{QueryOptions: structs.QueryOptions{MinIndex: 1}}, false, false},
		"waits long":          {&structs.CSIVolumeGetRequest{QueryOptions: structs.QueryOptions{MinIndex: math.MaxUint64}}, false, false},
		"a node's":            {&structs.NodeGetRequest{NodeID: "n", SecretID: "s"}, false, false},
		"about a node":        {&structs.NodeGetRequest{NodeID: "n"}, false, true},
		"nothing":             {fields{}, false, true},
		"nils":                {fields{"MinIndex": nil, "AllowStale": nil, "SecretID": nil}, false, true},
		"odd types":           {fields{"MinIndex": "0"}, false, false},
		"odd truth":           {fields{"AllowStale": 1}, false, false},
		"unknown fields":      {fields{"X": []any{1, fields{"MinIndex": 7}}, "MinIndex": 0}, false, true},
		"an array":            {[]any{1, 2}, false, false},
		"no struct":           {"text", false, false},
		"long":                {&structs.CSIVolumeGetRequest{ID: strings.Repeat("v", glanceBytes)}, false, false},
		"bytes for its names": {map[int]int{1: 2}, false, false},
	} {
		b, err := codec.Append(nil, c.req)
		if err != nil {
			t.Fatal(err)
		}
		if stale, plain := glance(b); plain != c.plain || plain && stale != c.stale {
			t.Errorf("%s: stale %t, plain %t", name, stale, plain)
		}
	}
	if _, plain := glance(append(msgp.AppendMapHeader(nil, glanceFields+1), make([]byte, 3*glanceFields)...)); plain {
		t.Error("a map of many fields is plain")
	}
	twice := msgp.AppendMapHeader(nil, 2)
	for _, stale := range []bool{true, false} {
		twice = msgp.AppendBool(msgp.AppendString(twice, "AllowStale"), stale)
	}
	if _, plain := glance(twice); plain {
		t.Error("a field that is said twice is plain")
	}
}

// FuzzGlance: what is refused by a glance would be refused after it was decoded, or is no request.
func FuzzGlance(f *testing.F) {
	for _, q := range []structs.QueryOptions{{}, {AllowStale: true}, {MinIndex: 7}, {Forwarded: true, MaxWait: 3, Filter: "x"}} {
		for _, req := range []any{&structs.NodeGetRequest{NodeID: "n", SecretID: "s", QueryOptions: q}, &structs.CSIVolumeGetRequest{ID: "v", QueryOptions: q}} {
			b, err := codec.Append(nil, req)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Add([]byte("\x81\xaaAllowStale\xc3"))
	f.Add([]byte("\xdf\xff\xff\xff\xff\xdd\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := newMessages(bytes.NewReader(b), 1<<16)
		whole, err := in.next()
		if err != nil {
			_, _ = glance(b) // it ends, and does not panic
			return
		}
		if rest := skip(b); len(b)-len(rest) != len(whole) {
			t.Fatalf("%x: %d bytes are skipped, %d are its value's", b, len(b)-len(rest), len(whole))
		}
		stale, plain := glance(whole)
		if !plain {
			return
		}
		var node structs.NodeGetRequest
		if err := codec.Decode(whole, &node); err == nil && (node.SecretID != "" || node.MinIndex > 0 || node.AllowStale != stale) {
			t.Fatalf("%x: stale %t, but it reads as %+v", whole, stale, node)
		}
		var volume structs.CSIVolumeGetRequest
		if err := codec.Decode(whole, &volume); err == nil && (volume.MinIndex > 0 || volume.AllowStale != stale) {
			t.Fatalf("%x: stale %t, but it reads as %+v", whole, stale, volume)
		}
	})
}

// TestARefusalReadsAsTheErrorThatItIs, with the time as it is in whole milliseconds.
func TestARefusalReadsAsTheErrorThatItIs(t *testing.T) {
	for _, text := range []string{"", "no", "retry after 1s; retry after ", strings.Repeat("long ", 200)} {
		for _, after := range []time.Duration{1, time.Millisecond, 1234 * time.Millisecond, 5 * time.Second, time.Hour} {
			for _, seq := range []uint64{0, 127, 1 << 40, math.MaxUint64} {
				no := refusal{NewNotice(text), after}
				in := newMessages(bytes.NewReader(no.append(nil, refusalHead("Test.Echo"), seq)), 1<<20)
				head, err := readHead(in)
				var body struct{}
				if err == nil {
					err = in.read(&body)
				}
				got := structs.ErrorFromWire(head.Error)
				if err != nil || head.Seq != seq || in.at != len(in.buf) || !structs.IsKind(got, structs.KindUnavailable) ||
					got.Error() != text || structs.RetryAfter(got) != max(after, time.Millisecond) {
					t.Fatalf("%q after %s, %d: %+v, %v, reads as %v after %s", text, after, seq, head, err, got, structs.RetryAfter(got))
				}
			}
		}
	}
}

// bounded is a server with a write for which there is room when room says so.
func bounded(t *testing.T, room func(coming int) time.Duration, serve func()) (s *Server, conn net.Conn) {
	full := NewNotice("others write")
	e := Handle(echoMethod, func(context.Context, *echo) (*echo, error) { serve(); return &echo{"written"}, nil })
	e.Room = func(coming int) (*Notice, time.Duration) { return full, room(coming) }
	s = NewServer(hclog.NewNullLogger(), e)
	here, there := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(there) })
	t.Cleanup(func() { _ = here.Close(); s.Close(); serving.Wait() })
	return s, here
}

// answersOf sends so many requests at once and returns the answers' failures by number.
func answersOf(t *testing.T, conn net.Conn, many int, payload ...byte) []string {
	t.Helper()
	var b []byte
	for n := range many {
		b = append(appendRequestHead(b, echoMethod.Name, uint64(n)), payload...)
	}
	var sending sync.WaitGroup
	sending.Go(func() { _, _ = conn.Write(b) }) // an error shows in what is read
	defer sending.Wait()
	in, failures := newMessages(conn, structs.MaxRPCAnswer), make([]string, many)
	for range many {
		head, err := readAnswer(in)
		if err != nil {
			t.Fatal(err)
		}
		failures[head.Seq] = head.Error
	}
	return failures
}

// TestWhereThereIsNoRoomNothingIsRead: neither is it decoded, nor does anything run.
func TestWhereThereIsNoRoomNothingIsRead(t *testing.T) {
	var full atomic.Bool
	full.Store(true)
	s, conn := bounded(t, func(int) time.Duration {
		if full.Load() {
			return time.Second
		}
		return 0
	}, func() {})
	wrong := []byte{0x81, 0xa4, 'T', 'e', 'x', 't', 0x80} // a map for a text
	const told = "unavailable: others write; retry after 1000ms"
	if got := answersOf(t, conn, 3, wrong...); slices.ContainsFunc(got, func(s string) bool { return s != told }) {
		t.Errorf("%q", got)
	}
	if _, err := Call(t.Context(), s, echoMethod, &echo{}); structs.RetryAfter(err) != time.Second || err.Error() != "others write" {
		t.Errorf("in the process: %v, again after %s", err, structs.RetryAfter(err))
	}
	full.Store(false)
	if got := answersOf(t, conn, 1, wrong...); !strings.HasPrefix(got[0], "invalid: ") {
		t.Errorf("with room: %q", got)
	}
	if got := answersOf(t, conn, 2, 0x80); got[0] != "" || got[1] != "" {
		t.Errorf("with room: %q", got)
	}
	if _, err := Call(t.Context(), s, echoMethod, &echo{}); err != nil {
		t.Error(err)
	}
}

// TestThoseWhoAreComingAreCounted until they are served, so that who asks for room knows of them.
func TestThoseWhoAreComingAreCounted(t *testing.T) {
	const room, many = 5, 20
	var begun, asked, most atomic.Int64
	s, conn := bounded(t, func(coming int) time.Duration {
		asked.Add(1)
		most.Store(max(most.Load(), int64(coming)))
		if coming+int(begun.Load()) >= room {
			return time.Second
		}
		return 0
	}, func() { begun.Add(1) })
	served := 0
	for _, failure := range answersOf(t, conn, many, 0x80) {
		if failure == "" {
			served++
		}
	}
	if coming := s.coming.Load(); coming != 0 || served > room || served == 0 || served != int(begun.Load()) || asked.Load() != many || most.Load() > room {
		t.Errorf("%d of %d are served, %d have begun; %d asked, at most %d were coming and %d are",
			served, many, begun.Load(), asked.Load(), most.Load(), coming)
	}
}

// TestARefusalCostsNoMemory: neither the payload is decoded nor an error made, and all share one buffer.
func TestARefusalCostsNoMemory(t *testing.T) {
	s, _, _ := flooded(t)
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(far) })
	defer serving.Wait()
	defer near.Close()
	const many = 16
	var batch []byte
	for n := range many {
		batch = appendRequestHead(batch, shedQuick.Name, uint64(n))
		batch = msgp.AppendString(msgp.AppendString(msgp.AppendMapHeader(batch, 1), "Prefix"), "volume")
	}
	in := newMessages(near, 1<<20)
	allocs := testing.AllocsPerRun(200, func() {
		if _, err := near.Write(batch); err != nil {
			t.Fatal(err)
		}
		for range 2 * many {
			if _, err := in.next(); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs > many/2 {
		t.Errorf("%.1f allocations for %d refusals", allocs, many)
	}
}

// TestQuickReadsAnswersGoTogether with those after them that have come with them, but not late.
func TestQuickReadsAnswersGoTogether(t *testing.T) {
	quick := Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) { return r, nil })
	quick.Quick, quick.Sheds = func(any) bool { return true }, true
	s := NewServer(hclog.NewNullLogger(), quick)
	near, far := net.Pipe()
	conn := &countingConn{Conn: far}
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(conn) })
	defer serving.Wait()
	defer near.Close()
	if got := answersOf(t, near, 20, 0x80); slices.ContainsFunc(got, func(s string) bool { return s != "" }) {
		t.Errorf("%q", got)
	}
	if n := conn.writes.Load(); n > 3 {
		t.Errorf("20 answers took %d writes", n)
	}
}

// TestWhoWaitsForATurnHoldsUpNoAnswers: those that are kept are written before.
func TestWhoWaitsForATurnHoldsUpNoAnswers(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{}, 8)
	quick := Handle(echoMethod, func(_ context.Context, r *echo) (*echo, error) { return r, nil })
	quick.Quick, quick.Sheds = func(any) bool { return true }, true
	slow := Handle(hangMethod, func(context.Context, *echo) (*echo, error) { held <- struct{}{}; <-hold; return &echo{}, nil })
	s := NewServer(hclog.NewNullLogger(), quick, slow)
	l := DefaultLimits()
	l.Calls, l.Queue = 2, time.Hour
	s.SetLimits(l)
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(far) })
	defer serving.Wait()
	defer near.Close()
	defer close(hold)
	var b []byte
	for n, m := range []string{hangMethod.Name, echoMethod.Name, hangMethod.Name, hangMethod.Name} { // the last has no turn
		b = append(appendRequestHead(b, m, uint64(n)), 0x80)
	}
	if _, err := near.Write(b); err != nil {
		t.Fatal(err)
	}
	head, err := readHead(newMessages(near, structs.MaxRPCAnswer))
	if err != nil || head.Seq != 1 {
		t.Errorf("%+v, %v; expected the answer to the quick one", head, err)
	}
}
