package api_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/api/operator"
	"berth/api/transport"
	"berth/internal/pki"
	"berth/structs"
	"berth/test/kit"
)

// overTLS serves the handler of a server to clients with a certificate, and returns the settings of one.
func overTLS(t *testing.T, s *server) (address string, settings transport.TLS) {
	t.Helper()
	now, dir := time.Now(), t.TempDir()
	authority, err := pki.NewAuthority("global", now, time.Hour)
	kit.Must(t, err)
	issue := func(role pki.Role) (certPEM, keyPEM []byte) {
		certPEM, keyPEM, err := authority.Issue(pki.Request{
			Identity: pki.Identity{Region: "global", Role: role, ID: "x"},
			From:     now,
			Life:     time.Minute,
		})
		kit.Must(t, err)
		return certPEM, keyPEM
	}

	pair, err := tls.X509KeyPair(issue(pki.RoleServer))
	kit.Must(t, err)
	secure := httptest.NewUnstartedServer(s.Config.Handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    x509.NewCertPool(),
		MinVersion:   tls.VersionTLS13,
	}
	secure.TLS.ClientCAs.AddCert(authority.Cert)
	secure.StartTLS()
	t.Cleanup(secure.Close)

	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		kit.Must(t, os.WriteFile(path, b, 0o600))
		return path
	}
	certPEM, keyPEM := issue(pki.RoleOperator)
	return secure.URL, transport.TLS{
		CACert:     write("ca.pem", authority.CertPEM()),
		ClientCert: write("cert.pem", certPEM),
		ClientKey:  write("key.pem", keyPEM),
		ServerName: "server.global.berth",
	}
}

func TestClient_UsesTLSForCallsAndForCommands(t *testing.T) {
	s := newServer(t)
	runsCommands(s, echo)
	address, settings := overTLS(t, s)
	c := api.NewClient(api.ClientConfig{Address: address, TLS: settings})
	defer c.Close()
	_, err := operator.ReadAgent(t.Context(), c)
	if err != nil {
		t.Errorf("a call: %v", err)
	}
	var out bytes.Buffer
	code, err := runExec(t.Context(), c, "here", "", &api.Exec{
		Command: []string{"sh"},
		Stdin:   strings.NewReader("in"),
		Stdout:  &out,
		Stderr:  io.Discard,
	})
	if err != nil || code != 7 || out.String() != "in" {
		t.Errorf("a command: exit code %d, %v, output %q", code, err, out.String())
	}
}

func TestClient_ExplainsTLSForCallsAndForCommands(t *testing.T) {
	s := newServer(t)
	address, settings := overTLS(t, s)
	for _, tc := range []struct {
		name, address string
		settings      transport.TLS
		kind          structs.Kind
		want          string
	}{
		{"no certificate", address, transport.TLS{CACert: settings.CACert}, structs.KindDenied,
			"requires a client certificate"},
		{"no TLS", strings.Replace(address, "https:", "http:", 1), transport.TLS{}, structs.KindInvalid,
			"use https://"},
		{"no file", address, transport.TLS{CACert: "none"}, structs.KindInvalid, "no such file"},
	} {
		c := api.NewClient(api.ClientConfig{Address: tc.address, TLS: tc.settings})
		_, err := operator.ReadAgent(t.Context(), c)
		_, ofCommand := api.OpenExec(t.Context(), c, "here", "", &api.Exec{Command: []string{"sh"}})
		c.Close()
		for _, err := range []error{err, ofCommand} {
			if !structs.IsKind(err, tc.kind) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want %s with %q", tc.name, err, tc.kind, tc.want)
			}
		}
	}
}

// An agent may quote another server's answer in its error.
func TestClient_TakesTheErrorOfAnAgentAsItIs(t *testing.T) {
	quoted := "the leader at 10.0.0.1:4746: Client sent an HTTP request to an HTTPS server."
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Berth-Error-Kind", string(structs.KindInvalid))
		http.Error(w, quoted, http.StatusBadRequest)
	}))
	defer srv.Close()
	c := api.NewClient(api.ClientConfig{Address: srv.URL})
	defer c.Close()
	_, err := operator.ReadAgent(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), quoted) {
		t.Errorf("got %v", err)
	}
}
