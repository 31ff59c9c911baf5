package authmethod

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/structs"
)

// The bounds of each request.
const (
	MaxBody      = 1 << 20 // bytes of an answer
	maxTime      = 10 * time.Second
	maxRedirects = 3
	maxHeader    = 64 << 10 // bytes
)

// The pace of the requests for keys, which anyone can cause by a token that names an unknown key.
const (
	keysAtOnce = 8
	keysEvery  = 5 * time.Second
)

// Transport sends the requests of one auth method. The client of a library gets it as its transport, with the
// library's own rules for redirects: Transport has this package's.
type Transport struct {
	hosts []string // host:port of the addresses in the configuration of the method
	now   func() time.Time
	// Each has connections of its own: one that was allowed to an address must not serve a request that is
	// not.
	configured, named, redirected *http.Transport

	mu    sync.Mutex
	left  float64 // requests for keys that may be sent now
	since time.Time
}

// NewTransport returns the transport for the addresses of a configuration. caPEM has the authorities of the
// provider, "" for the system's. The error is invalid.
func NewTransport(addresses []string, caPEM string, now func() time.Time) (*Transport, error) {
	roots, err := parseAuthorities(caPEM)
	if err != nil {
		return nil, err
	}

	t := &Transport{
		now:        now,
		configured: newTransport(roots, func(netip.Addr) error { return nil }),
		named:      newTransport(roots, checkNamed),
		redirected: newTransport(roots, checkPublic),
		left:       keysAtOnce,
		since:      now(),
	}
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil {
			return nil, structs.Invalidf("%q is no URL", structs.Cut(a, structs.MaxQuoted))
		}
		t.hosts = append(t.hosts, hostPort(u))
	}
	return t, nil
}

func parseAuthorities(caPEM string) (*x509.CertPool, error) {
	if caPEM == "" {
		return nil, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(caPEM)) {
		return nil, structs.Invalidf("the certificates of the authorities are not valid; expected PEM blocks CERTIFICATE")
	}
	return roots, nil
}

// newTransport returns one that connects only to addresses that check allows. The check is at the connection,
// so a name that resolves to another address later changes nothing.
func newTransport(roots *x509.CertPool, check func(netip.Addr) error) *http.Transport {
	dialer := &net.Dialer{
		Timeout: maxTime,
		Control: func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("reading the address %s: %w", address, err)
			}
			return check(to.Addr().Unmap())
		},
	}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    maxTime,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           4,
		MaxConnsPerHost:        16,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// Close closes the connections that no request uses.
func (t *Transport) Close() {
	t.configured.CloseIdleConnections()
	t.named.CloseIdleConnections()
	t.redirected.CloseIdleConnections()
}

// RoundTrip sends a request within the bounds.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	via, err := t.choose(req)
	if err == nil && isForKeys(req) {
		err = t.takeTurn()
	}
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(req.Context(), maxTime)
	resp, err := via.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &boundedBody{
		body:   resp.Body,
		left:   MaxBody,
		cancel: cancel,
	}
	return resp, nil
}

// choose returns the transport for a request by where its address comes from.
func (t *Transport) choose(req *http.Request) (*http.Transport, error) {
	if req.Response == nil {
		if slices.Contains(t.hosts, hostPort(req.URL)) {
			return t.configured, nil
		}
		return t.named, nil
	}

	hops := 0
	for r := req.Response; r != nil && r.Request != nil; r = r.Request.Response {
		hops++
	}
	former := req.Response.Request
	switch {
	case hops > maxRedirects:
		return nil, fmt.Errorf("the provider redirects more than %d times", maxRedirects)
	case req.Method != http.MethodGet || former != nil && former.Method != http.MethodGet:
		return nil, fmt.Errorf("the provider redirects a %s, which may have a secret", req.Method)
	case req.URL.Scheme != "https":
		return nil, fmt.Errorf("the provider redirects to %s; expected https", req.URL.Redacted())
	}
	return t.redirected, nil
}

// isForKeys reports whether a request is one for the keys or the description of a provider: it has no secret.
func isForKeys(req *http.Request) bool {
	return req.Method == http.MethodGet && req.Header.Get("Authorization") == ""
}

// takeTurn returns an error of kind unavailable if too many requests for keys were sent before.
func (t *Transport) takeTurn() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.left = min(keysAtOnce, t.left+max(0, float64(now.Sub(t.since))/float64(keysEvery)))
	t.since = now
	if t.left < 1 {
		return structs.Busy(keysEvery, "the keys of the provider were read many times just now; "+
			"a token may name an unknown key")
	}
	t.left--
	return nil
}

// hostPort returns the host of a URL with its port.
func hostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// checkNamed rejects addresses of this machine and of its links, with the services for the metadata of
// virtual machines, for an address that the provider names and the configuration does not.
func checkNamed(a netip.Addr) error {
	if a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast() {
		return fmt.Errorf("the provider names the address %s, which is one of this machine or its links; "+
			"only the configuration of the auth method may", a)
	}
	return nil
}

// inner are ranges that no public provider has, beside the ranges that netip knows.
var inner = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"),
}

// checkPublic rejects addresses that are not public, for a redirect.
func checkPublic(a netip.Addr) error {
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	if !a.IsGlobalUnicast() || a.IsPrivate() || slices.ContainsFunc(inner, within) {
		return fmt.Errorf("the provider redirects to the address %s, which is not public; "+
			"set the final URL in the configuration of the auth method", a)
	}
	return nil
}

// boundedBody is a body that ends with an error at a size. It ends the time of its request when it is closed.
type boundedBody struct {
	body   io.ReadCloser
	left   int
	cancel context.CancelFunc
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer of the provider has more than %d bytes", MaxBody)
	}
	n, err := b.body.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (b *boundedBody) Close() error {
	defer b.cancel()
	return b.body.Close()
}
