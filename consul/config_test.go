package consul

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/conf"
	"berth/structs"
)

func TestConfig_NamesEachFault(t *testing.T) {
	long := strings.Repeat("x", structs.MaxName+1)
	for want, edit := range map[string]func(*Config){
		"":                                  func(c *Config) { c.Address = "" }, // turned off
		"consul.address":                    func(c *Config) { c.Address = "consul" },
		"unix:///path":                      func(c *Config) { c.Address = "http://u:p@h:1" },
		"consul.grpc_address":               func(c *Config) { c.GRPCAddress = "h:1/path" },
		"consul.token: it has 256 bytes":    func(c *Config) { c.Token = Secret(long) },
		"consul.token: it must be one":      func(c *Config) { c.Token = "a\nb" },
		"there is a token, too":             func(c *Config) { c.Token = "t"; c.TokenFile = "/f" },
		"consul.token_file: \"f\" is not":   func(c *Config) { c.TokenFile = "f" },
		"consul.ca_file: \"ca\" is not":     func(c *Config) { c.CAFile = "ca" },
		"consul.cert_file and key_file":     func(c *Config) { c.CertFile = "/c" },
		"consul.auth: expected user":        func(c *Config) { c.Auth = "me" },
		"consul.timeout: 1ms is not":        func(c *Config) { c.Timeout = time.Millisecond },
		"consul.timeout: 1h0m0s is not":     func(c *Config) { c.Timeout = time.Hour },
		"consul.server_service_name: \"_\"": func(c *Config) { c.ServerServiceName = "_" },
		"consul.client_service_name: \"\"":  func(c *Config) { c.ClientServiceName = "" },
		"consul.allow_unauthenticated": func(c *Config) {
			c.AllowUnauthenticated = false
			c.Address = ""
		},
		"consul.tags: there are 65":    func(c *Config) { c.Tags = make([]string, 65) },
		"consul.tags: a tag must have": func(c *Config) { c.Tags = []string{""} },
	} {
		c := DefaultConfig()
		edit(&c)
		err := c.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	for _, address := range []string{"h:1", "http://h:1", "https://h:1/", "[::1]:8500", "unix:///run/c.sock"} {
		c := DefaultConfig()
		c.Address = address
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestConfig_RejectsEnterpriseSettings(t *testing.T) {
	for _, name := range []string{"namespace", "partition"} {
		c := DefaultConfig()
		err := conf.Decode("agent.hcl", []byte(name+` = "team"`), &c, nil)
		if err == nil || !strings.Contains(err.Error(), "enterprise") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfig_ShowsNoSecret(t *testing.T) {
	c := DefaultConfig()
	c.Token = "hush-token"
	c.Auth = "me:hush-password"
	plain, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(c.Redact())
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%v %+v %#v %s %q %x %s %s", c, c, c, c.Token, c.Token, c.Token, plain, shown)
	c.Token = Secret(strings.Repeat("hush", 1000))
	all += fmt.Sprint(c.Validate())
	if strings.Contains(all, "hush") || strings.Contains(all, "68757368") {
		t.Errorf("a secret is shown: %s", all)
	}
	if !strings.Contains(string(shown), `"Token":"[redacted]"`) {
		t.Errorf("a token is not mentioned: %s", shown)
	}
}

// answer makes a Consul that answers with the address and the headers of each request.
func answer(t *testing.T, start func(*httptest.Server)) (srv *httptest.Server, seen chan *http.Request) {
	t.Helper()
	seen = make(chan *http.Request, 10)
	srv = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		_, _ = w.Write([]byte(`{"Config": {"Version": "1.15.4"}}`))
	}))
	start(srv)
	t.Cleanup(srv.Close)
	return srv, seen
}

// ask opens the configuration and sends one request.
func ask(t *testing.T, c Config) error {
	t.Helper()
	client, transport, err := c.open()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	_, err = client.Agent().Self()
	return err
}

func TestConfig_SendsTheNewestTokenOfTheFile(t *testing.T) {
	t.Setenv("CONSUL_HTTP_TOKEN", "of-the-environment")
	t.Setenv("CONSUL_NAMESPACE", "of-the-environment")
	t.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1")
	srv, seen := answer(t, (*httptest.Server).Start)
	c := DefaultConfig()
	c.Address = srv.URL
	c.Auth = "me:secret"
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	r := <-seen
	user, password, _ := r.BasicAuth()
	if r.Header.Get("X-Consul-Token") != "" || r.URL.RawQuery != "" || user != "me" || password != "secret" {
		t.Errorf("headers without a token: %v", r.Header)
	}
	c.Auth = ""
	c.TokenFile = filepath.Join(t.TempDir(), "token")
	client, transport, err := c.open()
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	for _, token := range []string{"one", "two"} {
		if err := os.WriteFile(c.TokenFile, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Agent().Host(); err != nil {
			t.Fatal(err)
		}
		if got := (<-seen).Header.Get("X-Consul-Token"); got != token {
			t.Errorf("token %q, want %q", got, token)
		}
	}
	for _, text := range []string{"a\nb", strings.Repeat("x", maxToken+1)} {
		if err := os.WriteFile(c.TokenFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Agent().Host(); err == nil || !strings.Contains(err.Error(), "consul.token_file") {
			t.Errorf("a bad token file: %v", err)
		}
	}
	if len(seen) > 0 {
		t.Error("a request was sent without the token")
	}
}

func TestConfig_ReachesConsulOverASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = answer(t, func(srv *httptest.Server) {
		_ = srv.Listener.Close()
		srv.Listener = ln
		srv.Start()
	})
	c := DefaultConfig()
	c.Address = "unix://" + path
	if err := ask(t, c); err != nil {
		t.Error(err)
	}
}

// writePair writes a certificate for 127.0.0.1 that signs itself, and its key.
func writePair(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile = filepath.Join(dir, "cert.pem")
	keyFile = filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert},
		keyFile:  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestConfig_VerifiesBothEndsOfTLS(t *testing.T) {
	certFile, keyFile := writePair(t)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	srv, _ := answer(t, func(srv *httptest.Server) {
		pool := x509.NewCertPool()
		text, _ := os.ReadFile(certFile)
		pool.AppendCertsFromPEM(text)
		srv.TLS = &tls.Config{
			Certificates: []tls.Certificate{pair},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    pool,
		}
		srv.StartTLS()
	})
	c := DefaultConfig()
	c.Address = strings.TrimPrefix(srv.URL, "https://")
	c.SSL = true
	c.CAFile = certFile
	c.CertFile = certFile
	c.KeyFile = keyFile
	if err := ask(t, c); err != nil {
		t.Error(err)
	}
	for name, edit := range map[string]func(*Config){
		"no certificate":                  func(c *Config) { c.CertFile, c.KeyFile = "", "" },
		"an unknown authority":            func(c *Config) { c.CAFile = "" },
		"no CA file":                      func(c *Config) { c.CAFile = "/none" },
		"a CA file without a certificate": func(c *Config) { c.CAFile = keyFile },
		"no key":                          func(c *Config) { c.KeyFile = "/none" },
	} {
		bad := c
		edit(&bad)
		if err := ask(t, bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	c.CAFile = ""
	c.VerifySSL = false
	if err := ask(t, c); err != nil {
		t.Errorf("without verification: %v", err)
	}
}

func TestConfig_BoundsAnswers(t *testing.T) {
	b := &bounded{http.NoBody, 0}
	if _, err := b.Read(make([]byte, 1)); err == nil {
		t.Error("no error beyond the bound")
	}
}
