package rpc

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/tinylib/msgp/msgp"

	"berth/internal/loadshed"
	"berth/structs"
)

// What is refused costs the less the earlier: so it is decided before a request's payload is decoded, where
// a look at the payload's bytes is enough, and the answer is put together from what is ready.

// Shed has a gate decide, before anything is served, which requests are let in to endpoints that say so
// (Endpoint.Sheds). Of those that this server passes on (Endpoint.Elsewhere) it is loadshed.Gate.Passing that
// decides. Those that wait for news, or that a node makes about itself, are let in anyway. The gate's Run is
// the caller's to run.
func (s *Server) Shed(g *loadshed.Gate) { s.gate = g }

// shed refuses a request that may be refused, while there are too many.
func (s *Server) shed(e *Endpoint, req any) error {
	if s.gate == nil || !e.Sheds {
		return nil
	}
	stale, may := mayShed(req)
	if !may {
		return nil
	}
	again, ok := s.gateOf(e, stale).Admit()
	if ok {
		return nil
	}
	return refusal{tooMuch, again}.error()
}

// gateOf is the gate that decides on a read of an endpoint, which any server may answer if it may be stale.
func (s *Server) gateOf(e *Endpoint, stale bool) *loadshed.Gate {
	if !stale && e.Elsewhere != nil && e.Elsewhere() {
		return s.gate.Passing()
	}
	return s.gate
}

// mayShed reports whether a request may be refused for a gate's sake, and whether any server may answer it.
func mayShed(req any) (stale, may bool) {
	if r, ok := req.(interface{ Query() *structs.QueryOptions }); ok {
		q := r.Query()
		if stale = q.AllowStale; q.MinIndex > 0 {
			return stale, false
		}
	}
	if r, ok := req.(interface {
		Credentials() (nodeID, secretID string)
	}); ok {
		if _, secret := r.Credentials(); secret != "" {
			return stale, false
		}
	}
	return stale, true
}

// Notice is what a request is told that is refused before it is read, ready to be sent.
type Notice struct{ text, wire string }

// NewNotice is one that says so much, beside when to come again.
func NewNotice(text string) *Notice {
	const one = time.Millisecond
	return &Notice{text, strings.TrimSuffix(structs.ErrorToWire(structs.Busy(one, "%s", text)), one.String())}
}

// tooMuch is for requests that a gate does not let in.
var tooMuch = NewNotice(loadshed.Refused)

// refusal is a notice with after how long a request may come again: 0 when it is not refused.
type refusal struct {
	*Notice
	after time.Duration
}

func (r refusal) error() error { return structs.Busy(r.after, "%s", r.text) }

// refusalHead is how the answers to a method's refused requests begin, up to their number.
func refusalHead(method string) []byte {
	b := msgp.AppendMapHeader(nil, 3)
	b = msgp.AppendString(msgp.AppendString(b, "ServiceMethod"), method)
	return msgp.AppendString(b, "Seq")
}

// append appends the whole answer to a request that is refused.
func (r refusal) append(b, head []byte, seq uint64) []byte {
	const str16 = 0xda
	var number [24]byte
	after := append(strconv.AppendInt(number[:0], max(1, r.after.Round(time.Millisecond).Milliseconds()), 10), "ms"...)
	b = msgp.AppendString(msgp.AppendUint64(append(b, head...), seq), "Error")
	b = binary.BigEndian.AppendUint16(append(b, str16), uint16(len(r.wire)+len(after)))
	return msgp.AppendMapHeader(append(append(b, r.wire...), after...), 0)
}

// room refuses a request that its endpoint has no room for.
func (s *Server) room(e *Endpoint) (no refusal) {
	if e.Room != nil {
		no.Notice, no.after = e.Room(int(s.coming.Load()))
	}
	return no
}

// door decides about a question before its payload is decoded. decided says that nothing is left for shed to
// decide.
func (s *Server) door(q *question) (no refusal, decided bool) {
	if no := s.room(q.Endpoint); no.after > 0 {
		return no, true
	}
	if s.gate == nil || !q.Sheds {
		return no, true
	}
	if !s.gate.Refuses() && !s.gate.Passing().Refuses() {
		return no, false
	}
	stale, plain := glance(q.payload)
	if !plain {
		return no, false
	}
	if after, ok := s.gateOf(q.Endpoint, stale).Admit(); !ok {
		no = refusal{tooMuch, after}
	}
	return no, true
}

// What a payload may be that is decided about by a glance.
const (
	glanceBytes  = 4 << 10
	glanceFields = 64
)

// glance looks at the bytes of a payload for what mayShed asks of it. It is plain when it surely neither waits for
// news nor is a node's own; then stale says whether any server may answer. What is not as it is mostly written
// is not plain. b is one msgpack value.
func glance(b []byte) (stale, plain bool) {
	if len(b) > glanceBytes {
		return false, false
	}
	n, b, err := msgp.ReadMapHeaderBytes(b)
	if err != nil || n > glanceFields {
		return false, false
	}
	for ; n > 0; n-- {
		name, rest, err := msgp.ReadStringZC(b)
		if err != nil || len(rest) == 0 {
			return false, false
		}
		lead := rest[0]
		switch string(name) {
		case "MinIndex":
			if lead != 0 && lead != msgpNil {
				return false, false
			}
		case "SecretID":
			if lead != msgpEmpty && lead != msgpNil {
				return false, false
			}
		case "AllowStale":
			if stale || lead != msgpTrue && lead != msgpFalse && lead != msgpNil {
				return false, false
			}
			stale = lead == msgpTrue
		}
		if b = skip(rest); b == nil {
			return false, false
		}
	}
	return stale, true
}

// Values of one byte (msgpack specification, "Formats").
const (
	msgpNil   = 0xc0
	msgpFalse = 0xc2
	msgpTrue  = 0xc3
	msgpEmpty = 0xa0
)

// skip returns what follows a value, nil when it is not whole. It takes no longer than there are bytes.
func skip(b []byte) (rest []byte) {
	for left := 1; left > 0; left-- {
		if len(b) == 0 {
			return nil
		}
		s := &shapes[b[0]]
		size := 1 + s.length + s.fixed
		if s.bad || size > len(b) {
			return nil
		}
		left += s.count
		if s.length > 0 {
			n := lengthOf(b[1 : 1+s.length])
			if left += n * s.values; s.values == 0 {
				size += n
			}
		}
		if size > len(b) {
			return nil
		}
		b = b[size:]
	}
	return b
}
