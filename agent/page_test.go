package agent

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/pki/pkitest"
)

// visit reads an address as a browser does, without following it elsewhere.
func visit(t *testing.T, address, accept string) (status int, to, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Location"), string(b)
}

func TestPage_IsAtUIAndABrowserIsLedThere(t *testing.T) {
	addr, _, _ := startServer(t, "-data-dir", t.TempDir())
	status, _, body := visit(t, addr+"/ui/volumes", "text/html")
	if status != http.StatusOK || !strings.Contains(body, "<h1>Volumes</h1>") {
		t.Errorf("the page answers %d: %s", status, body)
	}
	for path, accept := range map[string]string{"/": "text/html,*/*", "/ui": "*/*"} {
		status, to, _ := visit(t, addr+path, accept)
		if status != http.StatusFound || to != "/ui/" {
			t.Errorf("%s answers %d and leads to %q", path, status, to)
		}
	}
	status, _, body = visit(t, addr+"/", "*/*")
	if status != http.StatusNotFound || !strings.Contains(body, "no route") {
		t.Errorf("a program gets %d at /: %s", status, body)
	}
}

func TestPage_IsTurnedOffByItsSetting(t *testing.T) {
	config := filepath.Join(t.TempDir(), "ui.hcl")
	pkitest.Write(t, config, []byte("ui {\n enabled = false\n}\n"))
	addr, _, _ := startServer(t, "-config", config, "-data-dir", t.TempDir())
	for _, path := range []string{"/ui/", "/"} {
		status, _, body := visit(t, addr+path, "text/html")
		if status != http.StatusNotFound || !strings.Contains(body, "no route") {
			t.Errorf("%s answers %d: %s", path, status, body)
		}
	}
}
