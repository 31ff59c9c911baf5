package api

import (
	"bytes"
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
	headerIndex       = "X-Nomad-Index"
	headerLastContact = "X-Nomad-LastContact" // milliseconds
	headerKnownLeader = "X-Nomad-KnownLeader"
	headerNextToken   = "X-Nomad-NextToken"
	headerErrorKind   = "X-Berth-Error-Kind"
	headerRetryAfter  = "Retry-After"         // whole seconds
	headerRetryExact  = "X-Berth-Retry-After" // the same as a duration: 250ms
)

// gzipFrom is the size from which an answer is worth compressing.
const gzipFrom = 2 << 10

func (c *call) setIndex(index uint64) {
	c.w.Header().Set(headerIndex, strconv.FormatUint(index, 10))
}

func (c *call) setMeta(m *structs.QueryMeta) {
	c.setIndex(m.Index)
	h := c.w.Header()
	h.Set(headerLastContact, strconv.FormatInt(m.LastContact.Milliseconds(), 10))
	h.Set(headerKnownLeader, strconv.FormatBool(m.KnownLeader))
	if m.NextToken != "" {
		h.Set(headerNextToken, m.NextToken)
	}
}

// render writes an answer as JSON. A nil list is an empty one.
func (c *call) render(answer any) { c.renderStatus(http.StatusOK, answer) }

func (c *call) renderStatus(status int, answer any) {
	if v := reflect.ValueOf(answer); v.Kind() == reflect.Slice && v.IsNil() {
		answer = []struct{}{}
	}
	d := drafts.Get().(*draft)
	defer d.release()
	if err := c.encode(d, answer); err != nil {
		renderError(c.w, structs.Errorf(structs.KindInternal, "encoding the answer: %w", err))
		return
	}
	c.write(status, d.buf)
}

// beginJSON says that an answer in JSON follows: from then on it is too late for an error.
func (c *call) beginJSON() http.Header {
	c.began = true
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Add("Vary", "Accept-Encoding")
	return h
}

// write writes a body that is whole, compressed where it is worth it.
func (c *call) write(status int, body []byte) {
	h := c.beginJSON()
	if len(body) >= gzipFrom && c.takesGzip() {
		h.Set("Content-Encoding", "gzip")
		c.w.WriteHeader(status)
		zip := newGzip(c.w)
		defer putGzip(zip)
		_, _ = zip.Write(body) // an error means that the client is gone
		_ = zip.Close()
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body)
}

func (c *call) takesGzip() bool {
	return strings.Contains(c.r.Header.Get("Accept-Encoding"), "gzip")
}

// gzips are compressors that are used again: each is large. They are quick rather than thorough, for most
// answers go to a machine nearby.
var gzips sync.Pool

func newGzip(w io.Writer) *gzip.Writer {
	if zip, ok := gzips.Get().(*gzip.Writer); ok {
		zip.Reset(w)
		return zip
	}
	zip, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is one there is
	return zip
}

func putGzip(zip *gzip.Writer) {
	zip.Reset(io.Discard) // else the answer's connection would be kept
	gzips.Put(zip)
}

// encode writes an answer and a line end, for people over several lines.
func (c *call) encode(d *draft, answer any) (err error) {
	if pretty, _ := c.flag("pretty"); pretty {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetIndent("", "    ")
		err = enc.Encode(answer)
		d.buf = append(d.buf, b.Bytes()...)
		return err
	}
	if d.buf, err = d.Append(d.buf, answer); err == nil {
		d.buf = append(d.buf, '\n')
	}
	return err
}

// renderError writes an error: its kind as the status and in a header, its text as the body.
func renderError(w http.ResponseWriter, err error) {
	kind := structs.KindOf(err)
	if kind == structs.KindInternal && (errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)) {
		kind = structs.KindTimeout // the request was given up
	}
	h := w.Header()
	h.Del("Content-Length")
	h.Del("Content-Encoding")
	h.Set(headerErrorKind, string(kind))
	if after := structs.RetryAfter(err); after > 0 {
		h.Set(headerRetryAfter, strconv.Itoa(int(math.Ceil(after.Seconds()))))
		h.Set(headerRetryExact, after.String())
	}
	status := kind.HTTPStatus()
	var other withStatus
	if errors.As(err, &other) {
		status = other.status
		h.Set("Connection", "close") // nobody waits for the rest of the body
	}
	http.Error(w, structs.Cut(err.Error(), structs.MaxErrorText), status)
}

// Busy answers each request with unavailable and when to come again.
func Busy(again time.Duration, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		renderError(w, structs.Busy(again, "%s", text))
	})
}

// withStatus is an error whose answer has another status than others of its kind. It is of a body that is not
// read to its end.
type withStatus struct {
	error
	status int
}

func (e withStatus) Unwrap() error { return e.error }
