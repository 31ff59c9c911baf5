package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"berth/internal/loadshed"
	"berth/structs"
)

// How long a body may take: each part of it arrives within bodyIdle, and all but streams arrive at bodyRate.
const (
	bodyIdle = 30 * time.Second
	bodyRate = 1 << 10 // bytes in a second, on average, after the first bodyIdle
)

// busyBodies is how soon a request is welcome again that is refused because of the bodies of others.
const busyBodies = time.Second

// requestBody reads the body of one request within bounds: of its own size, of the memory of all bodies
// together, and of the time that it may take to arrive. It sets the deadline for reads of the connection,
// from before the first byte until the last one: net/http itself would wait for ever for a body that the
// handler has not read.
type requestBody struct {
	src     io.ReadCloser
	conn    *http.ResponseController
	all     *loadshed.Budget
	idle    time.Duration
	most    int64 // bytes; 0 for a stream, which is not bounded and not counted
	started time.Time
	read    int64
	taken   int64 // of the budget
	ended   bool
}

// boundBody bounds the body of a request, nil for a request that has none.
func (h *handler) boundBody(w http.ResponseWriter, r *http.Request) *requestBody {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b := &requestBody{src: r.Body, conn: http.NewResponseController(w), all: h.bodies, idle: h.BodyIdle,
		most: structs.MaxHTTPBody, started: time.Now()}
	if b.idle == 0 {
		b.idle = bodyIdle
	}
	b.extend()
	r.Body = b
	return b
}

// extend moves the deadline for the next part. A connection without deadlines, as in tests, has none.
func (b *requestBody) extend() {
	by := time.Now().Add(b.idle)
	least := b.started.Add(b.idle + time.Duration(b.read)*time.Second/bodyRate)
	if b.most > 0 && least.Before(by) {
		by = least
	}
	_ = b.conn.SetReadDeadline(by)
}

// Read reads on. Its errors have the words for the client.
func (b *requestBody) Read(p []byte) (int, error) {
	if b.ended { // net/http has taken the deadline away: the answer may take as long as it likes
		return 0, io.EOF
	}
	if b.most > 0 && int64(len(p)) > b.most-b.read {
		p = p[:b.most-b.read+1]
	}
	b.extend()
	n, err := b.src.Read(p)
	b.read += int64(n)
	switch {
	case b.most > 0 && b.read > b.most:
		return 0, tooLarge("the body is larger than %d bytes", b.most)
	case b.most > 0 && !b.take(int64(n)):
		return 0, busy()
	case errors.Is(err, io.EOF):
		b.ended = true
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, withStatus{structs.Errorf(structs.KindInvalid,
			"the body did not arrive: %d bytes came in %s",
			b.read, time.Since(b.started).Round(time.Millisecond)), http.StatusRequestTimeout}
	}
	return n, err
}

// Close leaves the unread rest to net/http, which discards a little of it before the deadline.
func (b *requestBody) Close() error { return b.src.Close() }

func (b *requestBody) take(n int64) bool {
	if !b.all.Take(n) {
		return false
	}
	b.taken += n
	return true
}

// release gives the share of the body back. It is called when the request is served.
func (b *requestBody) release() {
	if b != nil {
		b.all.Give(b.taken)
	}
}

// weigh counts the memory that a body takes when it is decoded, which may be far more than its bytes.
func (b *requestBody) weigh(text []byte) error {
	parts := bytes.Count(text, []byte("{")) + bytes.Count(text, []byte("[")) + nullElements(text)
	switch {
	case parts > structs.MaxJSONParts:
		return tooLarge("the body has more than %d objects, lists and null elements", structs.MaxJSONParts)
	case !b.take(int64(parts) * structs.JSONPartBytes):
		return busy()
	}
	return nil
}

// nullElements counts the elements of lists that are null: each takes the memory of an element, which may be
// an object. A null that is the value of a field takes none of its own, and clients send many.
func nullElements(text []byte) (n int) {
	null := []byte("null")
	for at := 0; ; at += len(null) {
		next := bytes.Index(text[at:], null)
		if next < 0 {
			return n
		}
		at += next
		before := bytes.TrimRight(text[:at], " \t\r\n")
		if bytes.HasSuffix(before, []byte("[")) || bytes.HasSuffix(before, []byte(",")) {
			n++
		}
	}
}

func tooLarge(format string, args ...any) error {
	return withStatus{structs.Errorf(structs.KindInvalid, format, args...), http.StatusRequestEntityTooLarge}
}

func busy() error {
	return structs.Busy(busyBodies, "this agent has too many large requests to serve")
}
