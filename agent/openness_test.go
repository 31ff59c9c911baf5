package agent

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

// An agent that reaches no server lets requests pass only if it was never told that they need tokens. A
// member of a cluster with certificates denies before the first answer, and all keep to the last one.
func TestAgent_WithoutAServerDeniesWhatMayNeedAToken(t *testing.T) {
	own := pkitest.New(t, "global")
	files := own.Files(t, pki.RoleNode, "n1")
	for name, c := range map[string]struct {
		mode   peertls.Mode
		kept   string // the last answer of the servers
		served bool
	}{
		"a new agent":                      {peertls.ModeOff, "", true},
		"a new agent with certificates":    {peertls.ModePrefer, "", false},
		"the last answer was to ask":       {peertls.ModeOff, "tokens\n", false},
		"open, in a cluster with its keys": {peertls.ModePrefer, "open\n", true},
	} {
		a, _, _ := runServer(t, "n1", func(cfg *Config) {
			asNode(t, cfg, "127.0.0.1:1")
			if c.mode != peertls.ModeOff {
				cfg.TLS = peertls.Config{Mode: c.mode, CAFile: own.CAFile, CertFile: files.Cert, KeyFile: files.Key}
			}
			if c.kept == "" {
				return
			}
			err := os.WriteFile(filepath.Join(cfg.DataDir, "acl-open"), []byte(c.kept), 0o600)
			if err != nil {
				t.Fatal(err)
			}
		})
		resp, err := http.Get("http://" + a.HTTPAddr() + "/v1/agent/self")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if served := resp.StatusCode == http.StatusOK; served != c.served {
			t.Errorf("%s: %s: %.200s; want it served: %t", name, resp.Status, body, c.served)
		}
	}
}
