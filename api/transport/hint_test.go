package transport

import (
	"io"
	"strings"
	"testing"
)

func TestExplain_ExplainsThePortsOfTheServers(t *testing.T) {
	for address, hint := range map[string]string{
		"http://127.0.0.1:4747": "port 4747 is one of the servers' own",
		"[::1]:4748":            "port 4748 is one of the servers' own",
		"http://127.0.0.1:4746": "",
		"http://127.0.0.1":      "",
	} {
		tr, err := Open(address, TLS{})
		if err != nil {
			t.Fatal(err)
		}
		text := tr.Explain(t.Context(), io.EOF).Error()
		hinted := strings.Contains(text, "the HTTP API has port 4746")
		if hinted != (hint != "") || !strings.Contains(text, hint) {
			t.Errorf("%s: %q, want %q", address, text, hint)
		}
	}
}
