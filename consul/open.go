package consul

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/structs"
)

// The bounds of what Consul and the token file may have, in bytes.
const (
	maxAnswer = 64 << 20
	maxLookup = 16 << 20 // an answer for templates
	maxHeader = 64 << 10
	maxToken  = 4 << 10
)

// open makes a client of Consul's HTTP API. The error is invalid for files that cannot be read.
func (c *Config) open() (*api.Client, *http.Transport, error) {
	u, err := c.url()
	if err != nil {
		return nil, nil, structs.Invalidf("consul.address: %w", err)
	}

	dialer := &net.Dialer{Timeout: c.Timeout}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		MaxIdleConnsPerHost:    maxBeats,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxHeader,
	}

	if u.Scheme == "unix" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", u.Path)
		}
	}

	// The files are read once. Only the token is read again: see token.
	transport.TLSClientConfig, err = c.tlsConfig()
	if err != nil {
		return nil, nil, err
	}

	client, err := c.client(transport, c.Timeout, maxAnswer)
	return client, transport, err
}

// client makes a client with bounds of the time and the bytes of an answer. Without a timeout each request
// needs a context that ends.
func (c *Config) client(t *http.Transport, timeout time.Duration, most int64) (*api.Client, error) {
	u, err := c.url()
	if err != nil {
		return nil, structs.Invalidf("consul.address: %w", err)
	}

	conf := &api.Config{
		Address:   u.Host,
		Scheme:    u.Scheme,
		Transport: t,
		HttpClient: &http.Client{
			Timeout:       timeout,
			Transport:     &authorized{c, t, most},
			CheckRedirect: keepAnswer,
		},
	}

	if u.Scheme == "unix" {
		conf.Address = "localhost" // only the Host of requests
		conf.Scheme = "http"
	}

	client, err := api.NewClient(conf)
	if err != nil {
		return nil, structs.Invalidf("consul: %w", err)
	}

	return client, nil
}

// tlsConfig reads the files of the configuration.
func (c *Config) tlsConfig() (*tls.Config, error) {
	t := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: !c.VerifySSL,
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, structs.Invalidf("consul.ca_file: %w", err)
		}

		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, structs.Invalidf("consul.ca_file: %s has no certificate in PEM", c.CAFile)
		}
	}

	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, structs.Invalidf("consul.cert_file and key_file: %w", err)
		}

		t.Certificates = []tls.Certificate{pair}
	}

	return t, nil
}

// authorized sends requests with the token of the configuration, and without what the library takes from the
// environment of the agent: another token, a namespace, a partition.
type authorized struct {
	c    *Config
	next http.RoundTripper
	most int64 // bytes of an answer
}

// RoundTrip implements http.RoundTripper.
func (a *authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	// The file is read at each request, so that another token needs no restart.
	token := tokenOf(req.Context())
	if token == "" {
		var err error
		token, err = a.c.token()
		if err != nil {
			return nil, err
		}
	}

	// A RoundTripper must not change the request of its caller.
	req = req.Clone(req.Context())
	query := req.URL.Query()

	// The library reads CONSUL_NAMESPACE, CONSUL_PARTITION and CONSUL_HTTP_TOKEN at its own will.
	query.Del("ns")
	query.Del("partition")
	req.URL.RawQuery = query.Encode()
	req.Header.Del("X-Consul-Token")
	if token != "" {
		req.Header.Set("X-Consul-Token", string(token))
	}

	if user, password, ok := strings.Cut(string(a.c.Auth), ":"); ok {
		req.SetBasicAuth(user, password)
	}

	resp, err := a.next.RoundTrip(req)
	if err == nil {
		resp.Body = &bounded{resp.Body, a.most}
	}

	return resp, err
}

// token returns the token of the configuration or of its file.
func (c *Config) token() (Secret, error) {
	if c.TokenFile == "" {
		return c.Token, nil
	}

	f, err := os.Open(c.TokenFile)
	if err != nil {
		return "", structs.Preconditionf("consul.token_file: %w", err)
	}
	defer func() { _ = f.Close() }()

	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", structs.Preconditionf("consul.token_file: %w", err)
	}

	token := strings.TrimSpace(string(text))

	// A header must not have them, and its error would show a part of the token.
	if len(text) > maxToken || strings.ContainsAny(token, "\r\n\x00") {
		return "", structs.Preconditionf("consul.token_file: %s has more than one line or %d bytes",
			c.TokenFile, maxToken)
	}

	return Secret(token), nil
}

// bounded is the body of an answer that may not be longer than left.
type bounded struct {
	io.ReadCloser
	left int64
}

var errTooLong = errors.New("the answer of Consul is too long")

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	// A body of exactly the bound fails, too: whether it has ended is known only by another read.
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
