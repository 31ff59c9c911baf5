package api

import (
	"io"
	"net/http"
	"time"
)

// answerMeter passes an answer on and notes its status and its size.
type answerMeter struct {
	http.ResponseWriter
	status int
	size   int64 // bytes of the body
}

// WriteHeader notes the status; those below 200 announce another one.
func (m *answerMeter) WriteHeader(status int) {
	if m.status < http.StatusOK {
		m.status = status
	}
	m.ResponseWriter.WriteHeader(status)
}

// Write passes a part of the body on and counts it.
func (m *answerMeter) Write(p []byte) (int, error) {
	m.began()
	n, err := m.ResponseWriter.Write(p)
	m.size += int64(n)
	return n, err
}

// ReadFrom lets files be sent past this process.
func (m *answerMeter) ReadFrom(r io.Reader) (int64, error) {
	m.began()
	n, err := io.Copy(m.ResponseWriter, r)
	m.size += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (m *answerMeter) Unwrap() http.ResponseWriter { return m.ResponseWriter }

func (m *answerMeter) began() {
	if m.status < http.StatusOK {
		m.status = http.StatusOK
	}
}

// logAccess writes a line for a request that was served.
func (h *handler) logAccess(m *answerMeter, r *http.Request, path string, start time.Time) {
	if h.Logger.IsDebug() {
		m.began() // net/http answers with 200 for a handler that writes nothing
		h.Logger.Debug("request complete", "method", r.Method, "path", path, "status", m.status, "size",
			m.size,
			"peer", r.RemoteAddr, "duration", time.Since(start))
	}
}
