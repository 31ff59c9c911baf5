package agent

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"

	"berth/internal/opsocket"
	"berth/structs"
)

// Values need root or a certificate. The agent of -dev alone, on loopback, gives them to everybody there.
func TestCheckSecrets_NeedsRootOrACertificate(t *testing.T) {
	certified := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	for name, c := range map[string]struct {
		dev     bool
		bind    string
		tls     *tls.ConnectionState
		socket  bool
		allowed bool
	}{
		"plain":                     {false, "127.0.0.1", nil, false, false},
		"beyond loopback":           {false, "0.0.0.0", nil, false, false},
		"-dev":                      {true, "127.0.0.1", nil, false, true},
		"-dev beyond loopback":      {true, "0.0.0.0", nil, false, false},
		"the socket":                {false, "0.0.0.0", nil, true, true},
		"a certificate":             {false, "0.0.0.0", certified, false, true},
		"TLS without a certificate": {false, "0.0.0.0", &tls.ConnectionState{}, false, false},
	} {
		cfg := DefaultConfig()
		cfg.Dev = c.dev
		cfg.BindAddr = c.bind
		cfg.OperatorSocket = "/run/berth.sock"
		a := &Agent{}
		a.settings.Store(&cfg)
		r := httptest.NewRequest("GET", "/v1/var/a", nil)
		r.TLS = c.tls
		if c.socket {
			r = r.WithContext(opsocket.Mark(r.Context()))
		}
		err := a.checkSecrets(r)
		if (err == nil) != c.allowed {
			t.Errorf("%s: got %v", name, err)
		}
		if err != nil && (!structs.IsKind(err, structs.KindDenied) || structs.SocketOf(err) != "/run/berth.sock") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
