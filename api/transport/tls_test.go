package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/structs"
)

// fixture is an authority whose files are in a directory of the test.
type fixture struct {
	t         *testing.T
	dir       string
	region    string
	authority *pki.Authority
	ca        string // the file of its certificate
}

func newFixture(t *testing.T, region string) *fixture {
	t.Helper()
	authority, err := pki.NewAuthority(region, time.Now(), 48*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dir: t.TempDir(), region: region, authority: authority}
	f.ca = f.write("ca.pem", authority.CertPEM())
	return f
}

func (f *fixture) write(name string, b []byte) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	err := os.WriteFile(path, b, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	return path
}

// issue returns the certificate and the key for a role. It ended long ago if it is expired.
func (f *fixture) issue(role pki.Role, expired bool) (certPEM, keyPEM []byte) {
	f.t.Helper()
	r := pki.Request{
		Identity: pki.Identity{Region: f.region, Role: role, ID: "x"},
		From:     time.Now(),
		Life:     time.Hour,
	}
	if expired {
		r.From = r.From.Add(-24 * time.Hour)
	}
	certPEM, keyPEM, err := f.authority.Issue(r)
	if err != nil {
		f.t.Fatal(err)
	}
	return certPEM, keyPEM
}

// client returns the settings of an operator of this authority.
func (f *fixture) client(expired bool) TLS {
	certPEM, keyPEM := f.issue(pki.RoleOperator, expired)
	name := fmt.Sprintf("client-%t", expired)
	return TLS{
		CACert:     f.ca,
		ClientCert: f.write(name+".pem", certPEM),
		ClientKey:  f.write(name+"-key.pem", keyPEM),
	}
}

// serve starts an agent of this authority. edit may be nil.
func (f *fixture) serve(expired bool, edit func(*tls.Config)) *httptest.Server {
	f.t.Helper()
	pair, err := tls.X509KeyPair(f.issue(pki.RoleServer, expired))
	if err != nil {
		f.t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Listener = peertls.Listen(srv.Listener)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	if edit != nil {
		edit(srv.TLS)
	}
	srv.StartTLS()
	f.t.Cleanup(srv.Close)
	return srv
}

// requiring lets an agent require a client certificate of an authority.
func requiring(f *fixture) func(*tls.Config) {
	return func(c *tls.Config) {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.ClientCAs = x509.NewCertPool()
		c.ClientCAs.AddCert(f.authority.Cert)
	}
}

// get makes one request and returns its explained error.
func get(t *testing.T, address string, settings TLS) (*http.Response, error) {
	t.Helper()
	tr, err := Open(address, settings)
	if err != nil {
		return nil, err
	}
	defer tr.HTTP.CloseIdleConnections()
	client := &http.Client{Transport: tr.HTTP}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tr.Base.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, tr.Explain(t.Context(), err)
	}
	return resp, resp.Body.Close()
}

// wantError checks the kind of an error and a part of its text.
func wantError(t *testing.T, name string, err error, kind structs.Kind, text string) {
	t.Helper()
	if !structs.IsKind(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s:\n got %s (%v)\nwant %s with %q", name, structs.KindOf(err), err, kind, text)
	}
}

func TestOpen_SpeaksTLS13WithTheAuthorityOfTheCluster(t *testing.T) {
	f := newFixture(t, "eu")
	srv := f.serve(false, requiring(f))
	byFile := f.client(false)
	byDirectory := byFile
	byDirectory.CACert = ""
	byDirectory.CAPath = t.TempDir()
	for name, b := range map[string][]byte{"a.crt": f.authority.CertPEM(), "notes.txt": []byte("no")} {
		err := os.WriteFile(filepath.Join(byDirectory.CAPath, name), b, 0o600)
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, settings := range map[string]TLS{"-ca-cert": byFile, "-ca-path": byDirectory} {
		resp, err := get(t, srv.URL, settings)
		if err != nil || resp.TLS.Version != tls.VersionTLS13 {
			t.Errorf("%s: %v, %+v", name, err, resp)
		}
	}
}

func TestOpen_TakesNoOlderTLS(t *testing.T) {
	f := newFixture(t, "eu")
	older := f.serve(false, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })
	_, err := get(t, older.URL, TLS{CACert: f.ca})
	wantError(t, "1.2", err, structs.KindInvalid, "speaks 1.3")
	tr, err := Open(older.URL, TLS{})
	if err != nil || tr.HTTP.TLSClientConfig.MinVersion != tls.VersionTLS12 {
		t.Errorf("without an authority: %v, %+v", err, tr)
	}
}

func TestExplain_NamesTheRemedyOfAFaultOfTLS(t *testing.T) {
	f, twin := newFixture(t, "eu"), newFixture(t, "eu")
	other := newFixture(t, "us")
	open := f.serve(false, nil).URL
	ended := f.serve(true, nil).URL
	closed := f.serve(false, requiring(f)).URL
	ofTwin := f.serve(false, requiring(twin)).URL
	foreign := f.serve(false, requiring(other)).URL
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	byCA := TLS{CACert: f.ca}
	misnamed := TLS{CACert: f.ca, ServerName: "server.us.berth"}
	for _, c := range []struct {
		name, address string
		settings      TLS
		kind          structs.Kind
		want          string
	}{
		{"an authority of nobody", open, TLS{}, structs.KindInvalid, "does not know: name the file"},
		{"another authority", open, TLS{CACert: other.ca}, structs.KindInvalid, "none of " + other.ca},
		{"another name", open, misnamed, structs.KindInvalid, "-tls-server-name or BERTH_TLS_SERVER_NAME, " +
			"for example server.eu.berth"},
		{"an agent without TLS", strings.Replace(plain.URL, "http:", "https:", 1), byCA, structs.KindInvalid,
			"use http://"},
		{"an ended certificate of the agent", ended, byCA, structs.KindUnavailable, "set the clock"},
		{"no client certificate", closed, byCA, structs.KindDenied, "requires a client certificate"},
		{"an ended client certificate", closed, f.client(true), structs.KindDenied, "is not valid at this time; it is of"},
		{"a client certificate of another authority with the same name", ofTwin, f.client(false), structs.KindDenied,
			"its authority is not the cluster's"},
		{"a client certificate of another authority", foreign, f.client(false), structs.KindDenied,
			"its authority is not the cluster's"},
	} {
		_, err := get(t, c.address, c.settings)
		wantError(t, c.name, err, c.kind, c.want)
	}
}

func TestExplain_HintsAtTheClientCertificateOfALostConnection(t *testing.T) {
	f := newFixture(t, "eu")
	with := f.client(false)
	for _, c := range []struct {
		address  string
		settings TLS
		want     string
	}{
		{"https://127.0.0.1:1", TLS{CACert: f.ca}, "; if it requires a client certificate, name one with"},
		{"https://127.0.0.1:1", with, "; if it rejects the client certificate " + with.ClientCert},
		{"http://127.0.0.1:1", TLS{}, "the connection was lost"},
	} {
		tr, err := Open(c.address, c.settings)
		if err != nil {
			t.Fatal(err)
		}
		text := tr.Explain(t.Context(), syscall.ECONNRESET).Error()
		if !strings.Contains(text, c.want) || strings.Contains(text, "certificate") != (c.settings != TLS{}) {
			t.Errorf("%s: got %q, want %q", c.address, text, c.want)
		}
	}
}

func TestExplain_KnowsAPortOfAnotherProtocol(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		_, err = conn.Write([]byte("220 ready\r\n"))
		_, _ = io.Copy(io.Discard, conn)
		_ = errors.Join(err, conn.Close())
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-ended
	})
	_, err = get(t, "https://"+ln.Addr().String(), TLS{})
	wantError(t, "another protocol", err, structs.KindInvalid, "there is no TLS at")
}

func TestOpen_RejectsFilesThatCannotServe(t *testing.T) {
	f := newFixture(t, "eu")
	good := f.client(false)
	_, otherKey := f.issue(pki.RoleOperator, false)
	big := make([]byte, maxFile+1)
	for _, c := range []struct {
		name string
		edit func(*TLS)
		want string
	}{
		{"no file", func(s *TLS) { s.CACert = f.dir + "/none" }, "no such file or directory (-ca-cert, BERTH_CACERT)"},
		{"no certificate", func(s *TLS) { s.CACert = f.write("text.pem", []byte("x")) }, "has no certificate"},
		{"a damaged authority", func(s *TLS) {
			s.CACert = f.write("half.pem", append(f.authority.CertPEM(), f.authority.CertPEM()[:200]...))
		}, "begins 2 certificates"},
		{"a large file", func(s *TLS) { s.CACert = f.write("big.pem", big) }, "no file of certificates"},
		{"no directory", func(s *TLS) { s.CACert, s.CAPath = "", f.ca }, "not a directory (-ca-path, BERTH_CAPATH)"},
		{"an empty directory", func(s *TLS) { s.CACert, s.CAPath = "", t.TempDir() }, "no certificate in a file"},
		{"no key", func(s *TLS) { s.ClientKey = "" }, "has no key: name its file with -client-key"},
		{"no certificate of a key", func(s *TLS) { s.ClientCert = "" }, "name its file with -client-cert"},
		{"another key", func(s *TLS) { s.ClientKey = f.write("other.pem", otherKey) }, "does not go with the key"},
	} {
		settings := good
		c.edit(&settings)
		_, err := Open("https://127.0.0.1:1", settings)
		wantError(t, c.name, err, structs.KindInvalid, c.want)
	}
}

func TestOpen_RejectsOptionsOfTLSWithoutHTTPS(t *testing.T) {
	for _, address := range []string{"http://127.0.0.1:1", "127.0.0.1:1", "unix:///x"} {
		_, err := Open(address, TLS{CACert: "ca.pem"})
		wantError(t, address, err, structs.KindInvalid, "https://host:port")
	}
}

func TestTLS_ComesFromTheEnvironment(t *testing.T) {
	names := []string{"CACERT", "CAPATH", "CLIENT_CERT", "CLIENT_KEY", "TLS_SERVER_NAME"}
	for _, name := range names {
		t.Setenv("BERTH_"+name, "")
		t.Setenv("NOMAD_"+name, "dialect "+name)
	}
	check := func(given, want TLS) {
		t.Helper()
		got := given.withEnvironment()
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	check(TLS{}, TLS{"dialect CACERT", "dialect CAPATH", "dialect CLIENT_CERT", "dialect CLIENT_KEY",
		"dialect TLS_SERVER_NAME"})
	for _, name := range names {
		t.Setenv("BERTH_"+name, "own "+name)
	}
	check(TLS{}, TLS{"own CACERT", "own CAPATH", "own CLIENT_CERT", "own CLIENT_KEY",
		"own TLS_SERVER_NAME"})
	given := TLS{"a", "b", "c", "d", "e"}
	check(given, given)
}

func TestOpen_ReadsNoFilesOfTheEnvironmentWithoutHTTPS(t *testing.T) {
	t.Setenv("BERTH_CACERT", filepath.Join(t.TempDir(), "none"))
	_, err := Open("http://127.0.0.1:1", TLS{})
	if err != nil {
		t.Error(err)
	}
}
