package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// A request for the enterprise edition of the dialect gets the status of its other edition, the sentence by
// which its tools know it, and what berth has instead. It needs no right, and calls no procedure.
func TestHandler_NamesTheEnterpriseEdition(t *testing.T) {
	s := newServer(t)
	for path, instead := range map[string]string{
		"/v1/operator/license":      "berth needs no license",
		"/v1/operator/utilization":  "berth needs no license",
		"/v1/recommendation":        "berth recommends no resources",
		"/v1/recommendation/r":      "berth recommends no resources",
		"/v1/recommendations":       "berth recommends no resources",
		"/v1/recommendations/apply": "berth recommends no resources",
		"/v1/sentinel/policies":     "berth admission apply",
		"/v1/sentinel/policy/p":     "berth admission apply",
	} {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
			resp, body := s.do(t, method, path, "{}")
			switch {
			case path == "/v1/operator/license" && method == "GET":
				if resp.StatusCode != http.StatusNoContent || body != "" {
					t.Errorf("%s %s: got status %d: %q, want 204", method, path, resp.StatusCode, body)
				}
			case resp.StatusCode != http.StatusNotImplemented,
				!strings.HasPrefix(body, "Nomad Enterprise only endpoint: "),
				!strings.Contains(body, instead),
				resp.Header.Get("X-Berth-Error-Kind") != "precondition",
				resp.Close:
				t.Errorf("%s %s: got status %d, closed %t: %q", method, path, resp.StatusCode, resp.Close, body)
			}
		}
	}
	for _, call := range s.caller.Take() {
		t.Errorf("%s is called", call.Method)
	}
}

// The neighbours of these paths are as unknown as any other path.
func TestHandler_NamesNoEditionForOtherPaths(t *testing.T) {
	s := newServer(t)
	for _, path := range []string{
		"/v1/operator/license/x", "/v1/operator/licenses", "/v1/recommendations/x", "/v1/sentinel/policies/x",
		"/v1/sentinel", "/v1/sentinel/policy", "/x/v1/sentinel/policies",
	} {
		if resp, body := s.do(t, "GET", path, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got status %d: %s", path, resp.StatusCode, body)
		}
	}
}
