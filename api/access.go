package api

import (
	"net/http"
	"time"

	"berth/internal/agentlog"
)

// answerMeter records the status and the size of an answer.
type answerMeter struct {
	http.ResponseWriter
	status int
	size   int64 // bytes of the body
}

// WriteHeader records the status. A status below 200 is not final.
func (m *answerMeter) WriteHeader(status int) {
	if m.status < http.StatusOK {
		m.status = status
	}
	m.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes of the body.
func (m *answerMeter) Write(p []byte) (int, error) {
	m.defaultStatus()
	n, err := m.ResponseWriter.Write(p)
	m.size += int64(n)
	return n, err
}

// Unwrap serves http.ResponseController.
func (m *answerMeter) Unwrap() http.ResponseWriter {
	return m.ResponseWriter
}

// defaultStatus sets the status that net/http sends for a handler that sets none.
func (m *answerMeter) defaultStatus() {
	if m.status < http.StatusOK {
		m.status = http.StatusOK
	}
}

// logAccess logs a served request.
func (h *handler) logAccess(m *answerMeter, r *http.Request, path string, start time.Time) {
	if h.Logger.IsDebug() || agentlog.Following() {
		m.defaultStatus()
		h.Logger.Debug("request complete",
			"method", r.Method,
			"path", path,
			"status", m.status,
			"size", m.size,
			"remote", r.RemoteAddr,
			"took", time.Since(start),
			"request_id", r.Header.Get(HeaderRequestID))
	}
}
