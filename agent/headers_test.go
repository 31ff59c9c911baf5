package agent

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/pki/pkitest"
)

func TestHeaders_AreInEachAnswer(t *testing.T) {
	config := filepath.Join(t.TempDir(), "headers.hcl")
	pkitest.Write(t, config, []byte("http_api_response_headers {\n"+
		" Strict-Transport-Security = \"max-age=3600\"\n \"X-Frame-Options\" = \"DENY\"\n}\n"))
	addr, _, _ := startServer(t, "-config", config, "-data-dir", t.TempDir())
	for _, path := range []string{"/v1/agent/self", "/v1/nowhere"} {
		resp, err := http.Get(addr + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.Header.Get("Strict-Transport-Security") != "max-age=3600" ||
			resp.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", path, resp.Header)
		}
	}
}

func TestHeaders_RejectsThoseOfHTTPItself(t *testing.T) {
	many := map[string]string{}
	for i := range maxHeaders + 1 {
		many["X-"+strings.Repeat("a", i+1)] = "1"
	}
	for name, c := range map[string]struct {
		headers  map[string]string
		accepted bool
	}{
		"two":           {map[string]string{"X-A": "1", "X-B": "two words"}, true},
		"many":          {many, false},
		"no name":       {map[string]string{"X A": "1"}, false},
		"a new line":    {map[string]string{"X-A": "1\r\nX-B: 2"}, false},
		"a long value":  {map[string]string{"X-A": strings.Repeat("a", maxHeaderValue+1)}, false},
		"one of frames": {map[string]string{"content-length": "0"}, false},
	} {
		err := checkHeaders(c.headers)
		if (err == nil) != c.accepted {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The headers come before those of the API, which stay.
func TestHeaders_KeepTheOnesOfTheAPI(t *testing.T) {
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
	})
	answer := httptest.NewRecorder()
	withHeaders(map[string]string{"X-Content-Type-Options": "other"}, api).ServeHTTP(answer, nil)
	if got := answer.Header().Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("got %q", got)
	}
}
