package api

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"berth/internal/loadshed"
	"berth/structs"
)

// This file bounds the bodies of requests: the bytes of each one, the memory of all together, and the time in
// which they arrive.

// The bounds of the time in which a body arrives. Each part arrives within bodyIdle. A body that is not a
// stream arrives at bodyRate or faster. 1 KiB a second is far below the rate of any real link, and stops a
// client that sends a byte now and then to hold memory.
const (
	bodyIdle = 30 * time.Second
	bodyRate = 1 << 10 // bytes per second on average, after the first bodyIdle
)

// busyBodies is the delay for a client whose request was rejected because of the bodies of others.
const busyBodies = time.Second

// requestBody reads the body of one request within three bounds: its own size, the memory of all bodies
// together, and the time in which it arrives. It sets the read deadline of the connection from the first byte
// to the last one, because net/http would wait for ever for a body that the handler has not read.
type requestBody struct {
	src     io.ReadCloser
	conn    *http.ResponseController
	all     *loadshed.Budget
	idle    time.Duration
	most    int64 // bytes; 0 for a stream, which is not bounded and not counted
	started time.Time
	read    int64
	used    int64 // bytes of the budget
	ended   bool
}

// boundBody bounds the body of a request, whose next part has to arrive within idle. It returns nil if the
// request has no body. The caller releases it after the request.
func boundBody(w http.ResponseWriter, r *http.Request,
	all *loadshed.Budget, idle time.Duration) *requestBody {
	if r.ContentLength == 0 ||
		r.Body == nil ||
		r.Body == http.NoBody {
		return nil
	}
	b := &requestBody{
		src:     r.Body,
		conn:    http.NewResponseController(w),
		all:     all,
		idle:    cmp.Or(idle, bodyIdle),
		most:    structs.MaxHTTPBody,
		started: time.Now(),
	}
	b.extendDeadline()
	r.Body = b
	return b
}

// SetMost sets the most bytes of the body, 0 for a stream, before any is read. Until then the bound of most
// routes holds.
func (b *requestBody) SetMost(most int64) { b.most = most }

// extendDeadline moves the deadline for the next part. It ignores a connection without deadlines, as in
// tests. A body has to meet both: a pause within it is bounded, and so is the whole time.
func (b *requestBody) extendDeadline() {
	deadline := time.Now().Add(b.idle)
	allowance := time.Duration(b.read) * time.Second / bodyRate
	atRate := b.started.Add(b.idle + allowance)
	if b.most > 0 && atRate.Before(deadline) {
		deadline = atRate
	}
	_ = b.conn.SetReadDeadline(deadline)
}

// Read reads the next part. Its errors go to the client.
func (b *requestBody) Read(p []byte) (int, error) {
	if b.ended { // net/http has removed the deadline, because the answer may take any time
		return 0, io.EOF
	}

	// One byte more than allowed is read, which shows that the body is too large.
	if b.most > 0 && int64(len(p)) > b.most-b.read {
		p = p[:b.most-b.read+1]
	}

	b.extendDeadline()
	n, err := b.src.Read(p)
	b.read += int64(n)
	switch {
	case b.most > 0 && b.read > b.most:
		return 0, tooLargeError("the body is larger than %d bytes", b.most)
	// The budget is taken as the bytes come: a client that announces much and sends little takes little.
	case b.most > 0 && !b.reserve(int64(n)):
		return 0, busyError()
	case errors.Is(err, io.EOF):
		b.ended = true
	case errors.Is(err, os.ErrDeadlineExceeded):
		took := time.Since(b.started).Round(time.Millisecond)
		err = structs.Invalidf("the body did not arrive: %d bytes came in %s",
			b.read, took)
		return n, StatusError{Err: err, Status: http.StatusRequestTimeout, Unread: true}
	}

	return n, err
}

// Close leaves the unread rest to net/http, which discards a little of it before the deadline.
func (b *requestBody) Close() error {
	return b.src.Close()
}

// reserve adds bytes to the share of the body in the budget, if the budget allows it. It never waits: a
// request that waits with half a body would hold what others wait for.
func (b *requestBody) reserve(n int64) bool {
	if !b.all.Take(n) {
		return false
	}
	b.used += n
	return true
}

// Release returns the share of the body to the budget after the request. b may be nil.
func (b *requestBody) Release() {
	if b != nil {
		b.all.Give(b.used)
	}
}

// ReserveDecoded reserves the memory of the decoded body, which may be far more than its bytes.
func (b *requestBody) ReserveDecoded(text []byte) error {
	// Each of them becomes a value of its own in memory, however few bytes it has.
	parts := bytes.Count(text, []byte("{")) +
		bytes.Count(text, []byte("[")) +
		nullElements(text)
	switch {
	case parts > structs.MaxJSONParts:
		return tooLargeError("the body has more than %d objects, lists and null elements",
			structs.MaxJSONParts)
	case !b.reserve(int64(parts) * structs.JSONPartBytes):
		return busyError()
	}
	return nil
}

// nullElements counts the list elements that are null. Each takes the memory of an element, which may be an
// object. The null of a field takes none, and clients send many of them.
func nullElements(text []byte) (n int) {
	null := []byte("null")
	for at := 0; ; at += len(null) {
		next := bytes.Index(text[at:], null)
		if next < 0 {
			return n
		}
		at += next
		before := bytes.TrimRight(text[:at], " \t\r\n")
		if bytes.HasSuffix(before, []byte("[")) ||
			bytes.HasSuffix(before, []byte(",")) {
			n++
		}
	}
}

// tooLargeError closes the connection, since the rest of the body is not read.
func tooLargeError(format string, args ...any) error {
	return StatusError{
		Err:    structs.Invalidf(format, args...),
		Status: http.StatusRequestEntityTooLarge,
		Unread: true,
	}
}

// busyError tells when to retry: others have the memory, and will end.
func busyError() error {
	return structs.Busy(busyBodies, "this agent has too many large requests to serve")
}

// StatusError is an error whose HTTP status is not its kind's.
type StatusError struct {
	Err    error
	Status int
	Unread bool // the body of the request is not read to its end, so no request follows on the connection
}

// StatusError is the text of the error alone.
func (e StatusError) Error() string { return e.Err.Error() }

// Unwrap returns the error, which has a kind.
func (e StatusError) Unwrap() error { return e.Err }
