package certificate

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"berth/cli/clitest"
	"berth/structs"
)

// A certificate that is not written would be valid, and nobody would know its serial number.
func TestRequest_AsksForNothingThatItCannotWrite(t *testing.T) {
	var asked []string
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/agent/self" {
			asked = append(asked, r.URL.Path)
		}
		_, _ = w.Write([]byte(`{"config":{"Region":"eu"}}`))
	}))
	defer agent.Close()
	t.Setenv("BERTH_ADDR", agent.URL)
	for _, name := range []string{"eu-operator-ann.pem", "eu-operator-ann-key.pem", "eu-operator-ann-ca.pem"} {
		dir := t.TempDir()
		err := os.WriteFile(filepath.Join(dir, name), nil, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		code, out, errs := clitest.Run(t, Commands, "cert", "request", "-id", "ann", "-dir", dir)
		if code != structs.KindConflict.ExitCode() {
			t.Errorf("beside %s: exit code %d, %s%s", name, code, out, errs)
		}
	}
	code, _, errs := clitest.Run(t, Commands, "cert", "request", "-id", "ann", "-dir", "/no/such/dir")
	if code != structs.KindInvalid.ExitCode() || len(asked) > 0 {
		t.Errorf("without a directory: exit code %d, %s; it asked %v", code, errs, asked)
	}
}
