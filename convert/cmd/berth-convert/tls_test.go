package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestNomad_ProvesItselfToACluster that asks for a certificate, and checks the name of the cluster.
func TestNomad_ProvesItselfToACluster(t *testing.T) {
	t.Parallel()
	proved := atomic.Int64{}
	cluster := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proved.Add(int64(len(r.TLS.PeerCertificates)))
		_, _ = io.WriteString(w, "[]")
	}))
	cluster.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	cluster.Config.ErrorLog = log.New(io.Discard, "", 0)
	cluster.StartTLS()
	t.Cleanup(cluster.Close)

	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := x509.MarshalPKCS8PrivateKey(cluster.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile := write("cert.pem", "CERTIFICATE", cluster.Certificate().Raw)
	keyFile := write("key.pem", "PRIVATE KEY", key)

	args := []string{"nomad", "-address", cluster.URL, "-ca-cert", certFile, "-out", filepath.Join(dir, "out")}
	_, _, errs := run(t, args...)
	if proved.Load() != 0 || !strings.Contains(errs, "certificate required") {
		t.Errorf("without a certificate: %s", errs)
	}
	_, _, errs = run(t, append(args, "-client-cert", certFile)...)
	if !strings.Contains(errs, "-client-key") {
		t.Errorf("without a key: %s", errs)
	}
	args = append(args, "-client-cert", certFile, "-client-key", keyFile, "-force")
	_, _, errs = run(t, append(args, "-tls-server-name", "other.invalid")...)
	if proved.Load() != 0 || !strings.Contains(errs, "other.invalid") {
		t.Errorf("with another name: %s", errs)
	}
	_, _, errs = run(t, append(args, "-tls-server-name", "example.com")...)
	if proved.Load() == 0 {
		t.Errorf("the cluster saw no certificate: %s", errs)
	}
}
