package api

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/structs"
)

// The headers of an answer.
const (
	HeaderIndex       = "X-Nomad-Index"
	headerLastContact = "X-Nomad-LastContact" // milliseconds
	headerKnownLeader = "X-Nomad-KnownLeader"
	headerNextToken   = "X-Nomad-NextToken"
	HeaderErrorKind   = "X-Berth-Error-Kind"
	headerSocket      = "X-Berth-Operator-Socket" // of a denied request: the path of the socket that takes it
	headerRetryAfter  = "Retry-After"             // whole seconds
	headerRetryExact  = "X-Berth-Retry-After"     // the same as a duration: 250ms
)

// gzipFrom is the least size of an answer that is compressed.
const gzipFrom = 2 << 10

func (c *Call) SetIndex(index uint64) {
	c.Writer.Header().Set(HeaderIndex, strconv.FormatUint(index, 10))
}

// setMeta precedes the body, because headers cannot follow it.
func (c *Call) setMeta(m *structs.QueryMeta) {
	c.SetIndex(m.Index)
	h := c.Writer.Header()
	lastContact := m.LastContact.Milliseconds()
	h.Set(headerLastContact, strconv.FormatInt(lastContact, 10))
	h.Set(headerKnownLeader, strconv.FormatBool(m.KnownLeader))
	if m.NextToken != "" {
		h.Set(headerNextToken, m.NextToken)
	}
}

// render writes an answer as JSON. A nil list becomes an empty one. Clients of the dialect expect a list to
// be a list also when it is empty.
func (c *Call) Render(status int, answer any) {
	v := reflect.ValueOf(answer)
	if v.Kind() == reflect.Slice && v.IsNil() {
		answer = []struct{}{}
	}
	d := drafts.Get().(*draft)
	defer d.release()
	// The whole answer is encoded before a byte is sent, so an error still has its status.
	err := c.encode(d, answer)
	if err != nil {
		renderError(c.Writer, structs.Internalf("encoding the answer: %w", err))
		return
	}
	c.writeBody(status, d.buf)
}

// setJSONHeaders sets the headers of an answer in JSON. The status cannot become an error after it. A cache
// must not give a compressed answer to a client that cannot read it, hence Vary.
func (c *Call) setJSONHeaders() http.Header {
	c.Began = true
	h := c.Writer.Header()
	h.Set("Content-Type", "application/json")
	h.Add("Vary", "Accept-Encoding")
	return h
}

// writeBody writes a complete body and compresses a large one.
func (c *Call) writeBody(status int, body []byte) {
	h := c.setJSONHeaders()
	if len(body) >= gzipFrom && c.acceptsGzip() {
		h.Set("Content-Encoding", "gzip")
		c.Writer.WriteHeader(status)
		zip := newGzip(c.Writer)
		defer putGzip(zip)
		_, _ = zip.Write(body) // it fails only if the client has disconnected
		_ = zip.Close()
		return
	}
	// By the length a client tells a part from the whole.
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.Writer.WriteHeader(status)
	_, _ = c.Writer.Write(body)
}

// A server may always answer without compression, so the weights of the header do not matter.
func (c *Call) acceptsGzip() bool {
	return strings.Contains(c.Request.Header.Get("Accept-Encoding"), "gzip")
}

// gzips has compressors for reuse, because each is large. They favour speed over size, because most clients
// are near.
var gzips sync.Pool

func newGzip(w io.Writer) *gzip.Writer {
	if zip, ok := gzips.Get().(*gzip.Writer); ok {
		zip.Reset(w)
		return zip
	}
	zip, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // it fails only for an unknown level
	return zip
}

func putGzip(zip *gzip.Writer) {
	zip.Reset(io.Discard) // the pool must not keep the connection
	gzips.Put(zip)
}

// encode writes an answer and a line end. ?pretty indents it.
func (c *Call) encode(d *draft, answer any) (err error) {
	if pretty, _ := c.Flag("pretty"); pretty {
		d.buf, err = json.MarshalIndent(answer, "", "    ")
	} else {
		d.buf, err = d.Append(d.buf, answer)
	}
	d.buf = append(d.buf, '\n')
	return err
}

// renderError writes an error. The status and a header have its kind, and the body has its text.
func renderError(w http.ResponseWriter, err error) {
	kind := structs.KindOf(err)
	ended := errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)
	if kind == structs.KindInternal && ended {
		kind = structs.KindTimeout // the context of the request has ended
	}

	h := w.Header()
	h.Del("Content-Length")
	h.Del("Content-Encoding")
	h.Set(HeaderErrorKind, string(kind))

	if after := structs.RetryAfter(err); after > 0 {
		seconds := int(math.Ceil(after.Seconds()))
		h.Set(headerRetryAfter, strconv.Itoa(seconds))
		h.Set(headerRetryExact, after.String())
	}

	// The command of the operator reads it, and tells which socket takes the request.
	if socket := structs.SocketOf(err); socket != "" {
		h.Set(headerSocket, socket)
	}

	status := kind.HTTPStatus()
	var other StatusError
	if errors.As(err, &other) {
		status = other.Status
	}
	if other.Unread {
		h.Set("Connection", "close") // the server does not read the rest of the body
	}

	text := structs.Cut(err.Error(), structs.MaxErrorText)
	http.Error(w, text, status)
}

// Busy returns a handler that rejects each request with unavailable and the delay before a retry.
func Busy(again time.Duration, text string) http.Handler {
	return Failed(structs.Busy(again, "%s", text))
}

// Failed answers each request with an error.
func Failed(err error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { renderError(w, err) })
}
