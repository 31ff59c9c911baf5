package agent

import (
	"net/http"

	"golang.org/x/net/http/httpguts"

	"berth/structs/validate/field"
)

// The most headers of http_api_response_headers, and the most bytes of one value.
const (
	maxHeaders     = 64
	maxHeaderValue = 4096
)

// checkHeaders returns an error that names the headers that HTTP does not allow, or that the API sets.
func checkHeaders(headers map[string]string) error {
	f := field.New("http_api_response_headers")
	f.AtMost("headers", len(headers), maxHeaders)
	for name, value := range headers {
		f.Require(httpguts.ValidHeaderFieldName(name), "%q is not the name of a header", name)
		f.Require(httpguts.ValidHeaderFieldValue(value) && len(value) <= maxHeaderValue,
			"%s: expected at most %d bytes without control characters", name, maxHeaderValue)
		f.Require(!ownHeaders[http.CanonicalHeaderKey(name)], "%s: each answer has its own", name)
	}
	return f.Err()
}

// ownHeaders are the headers that frame an answer.
var ownHeaders = map[string]bool{
	"Connection":        true,
	"Content-Encoding":  true,
	"Content-Length":    true,
	"Content-Type":      true,
	"Transfer-Encoding": true,
	"Upgrade":           true,
}

// withHeaders adds headers to each answer of a handler.
func withHeaders(headers map[string]string, next http.Handler) http.Handler {
	// Most agents have none, and their answers then pass no further handler.
	if len(headers) == 0 {
		return next
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			// They are set first, so that a handler may still set its own.
			w.Header().Set(name, value)
		}

		next.ServeHTTP(w, r)
	})
}
