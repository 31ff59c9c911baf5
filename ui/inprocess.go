package ui

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// inProcess is an http.RoundTripper whose requests a handler answers. A body is streamed: the handler waits
// until its bytes are read.
type inProcess struct {
	Handler http.Handler
	// From is the request of the browser for which the transport works. The handler sees its host, its address
	// and its certificate, because rights may depend on them.
	From *http.Request
}

// RoundTrip calls the handler in a goroutine. The goroutine ends before the body is closed, or before
// RoundTrip returns an error. The error is that of the context of the request.
func (t *inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	in := req.Clone(ctx)
	in.Host = t.From.Host
	in.RemoteAddr = t.From.RemoteAddr
	in.TLS = t.From.TLS
	in.RequestURI = in.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody // as a server gives it to a handler
	}

	reader, writer := io.Pipe()
	w := &inProcessAnswer{
		header: http.Header{},
		body:   writer,
		began:  make(chan struct{}),
	}
	b := &inProcessBody{PipeReader: reader, cancel: cancel}
	b.serving.Go(func() { serveInProcess(t.Handler, w, in) })

	select {
	case <-w.began:
		return w.response(req, b), nil
	case <-ctx.Done():
		_ = b.Close()
		return nil, context.Cause(ctx)
	}
}

// serve runs a handler until its end. A panic breaks the body off, as net/http closes the connection.
func serveInProcess(h http.Handler, w *inProcessAnswer, r *http.Request) {
	defer func() {
		fault := error(io.EOF)
		if recover() != nil {
			fault = io.ErrUnexpectedEOF
			w.WriteHeader(http.StatusInternalServerError) // of an answer that has not begun
		}
		_ = w.body.CloseWithError(fault)
	}()

	h.ServeHTTP(w, r)
	w.WriteHeader(http.StatusOK) // of an answer without a body
}

// body is the body of an answer. Its end is the end of the handler.
type inProcessBody struct {
	*io.PipeReader
	cancel  context.CancelFunc
	serving sync.WaitGroup
}

// Close ends the handler, whose writes fail from then on, and waits for its end.
func (b *inProcessBody) Close() error {
	b.cancel()
	err := b.PipeReader.Close()
	b.serving.Wait()
	return err
}

// answer is the http.ResponseWriter of the handler.
type inProcessAnswer struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	began  chan struct{} // closed when status and sent are set
	status int
	sent   http.Header
}

// Header returns the headers that the handler sets before it writes.
func (w *inProcessAnswer) Header() http.Header { return w.header }

// WriteHeader begins the answer. A second call has no effect.
func (w *inProcessAnswer) WriteHeader(status int) {
	if status < http.StatusOK {
		return // an interim answer, which the caller does not need
	}
	w.once.Do(func() {
		w.status = status
		w.sent = w.header.Clone()
		close(w.began)
	})
}

// Write blocks until the caller has read the bytes, or has closed the body.
func (w *inProcessAnswer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush begins the answer. Bytes are not kept, so there are none to send.
func (w *inProcessAnswer) Flush() { w.WriteHeader(http.StatusOK) }

func (w *inProcessAnswer) response(req *http.Request, b *inProcessBody) *http.Response {
	return &http.Response{
		Status:        http.StatusText(w.status),
		StatusCode:    w.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.sent,
		Body:          b,
		ContentLength: -1,
		Request:       req,
	}
}
