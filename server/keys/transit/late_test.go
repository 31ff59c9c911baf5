package transit

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestClient_BoundsTheTime(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the context ends with the connection
		_, _ = w.Write([]byte(`{"data": {`))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer engine.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := New(&Settings{Address: engine.URL, KeyName: "berth", TokenFile: token})
	if c.timeout != timeout {
		t.Errorf("the bound is %s", c.timeout)
	}
	c.timeout = 50 * time.Millisecond
	_, err := c.Wrap(t.Context(), "one", []byte("key"))
	if err == nil || !strings.Contains(err.Error(), "no answer came within 50ms") {
		t.Errorf("got %v", err)
	}
}
