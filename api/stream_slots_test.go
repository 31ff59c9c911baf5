package api

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"testing"

	"berth/internal/opsocket"
	"berth/structs"
)

// The statuses of the faults.
const (
	none     = 0
	allTaken = http.StatusServiceUnavailable
	ownTaken = http.StatusTooManyRequests
)

func TestSlots_BoundAllAndEachCaller(t *testing.T) {
	s := newStreamSlots(3, 2)
	take := func(c callerName, want int) func() {
		t.Helper()
		release, err := s.Take(c)
		status := none
		var own StatusError
		if errors.As(err, &own) {
			status = own.Status
		} else if err != nil {
			status = structs.KindOf(err).HTTPStatus()
		}
		if status != want {
			t.Errorf("%q: got %v, want the status %d", c, err, want)
		}
		return release
	}
	end := take("a", none)
	take("a", none)
	take("a", ownTaken)
	take("b", none)
	take("c", allTaken)
	take(unknownCaller, allTaken)
	take(rootCaller, none) // beside the others
	take(rootCaller, none)
	take(rootCaller, ownTaken)

	end()
	take(unknownCaller, none)
	take("a", allTaken)
	s = newStreamSlots(3, 2)
	for range 3 {
		take(unknownCaller, none)
	}
	s = newStreamSlots(3, 2)
	take("a", none)()
	if len(s.of) != 0 || s.taken != 0 {
		t.Errorf("a caller that has gone is kept: %v, %d", s.of, s.taken)
	}
}

func TestCallerOf_CountsTokensAndAddresses(t *testing.T) {
	from := func(remote string) *http.Request {
		return &http.Request{RemoteAddr: remote, Header: http.Header{}}
	}
	for _, c := range []struct {
		a, b           string
		tokenA, tokenB string
		same           bool
	}{
		{"10.0.0.1:1", "10.0.0.1:2", "", "", true},
		{"10.0.0.1:1", "10.0.0.2:1", "", "", false},
		{"10.0.0.1:1", "[::ffff:10.0.0.1]:1", "", "", true},
		{"[2001:db8::1]:1", "[2001:db8::2]:1", "", "", true},
		{"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", "", "", false},
		{"@", "", "", "", true},
		{"10.0.0.1:1", "10.0.0.2:1", "x", "x", true},
		{"10.0.0.1:1", "10.0.0.1:1", "x", "y", false},
		{"10.0.0.1:1", "10.0.0.1:1", "x", "", false},
	} {
		a, b := callerNameOf(from(c.a), c.tokenA), callerNameOf(from(c.b), c.tokenB)
		if (a == b) != c.same || a == unknownCaller || a == rootCaller {
			t.Errorf("%q beside %q: same is %t, want %t", a, b, a == b, c.same)
		}
	}
}

// The name that a server sends counts only with its certificate.
func TestCallerOf_BelievesNoHeaderWithoutAServer(t *testing.T) {
	r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{}}
	r.Header.Set(HeaderPassedOn, "1")
	r.Header.Set(HeaderStreamCaller, "root")
	want := callerNameOf(&http.Request{RemoteAddr: "10.0.0.1:2"}, "")
	if got := callerNameOf(r, ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	if got := callerNameOf(r, ""); got != want {
		t.Errorf("with a certificate of no server: got %q, want %q", got, want)
	}
	of := func(role string) *x509.Certificate {
		return &x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "global", Path: "/" + role + "/n1"}}}
	}
	r.TLS.PeerCertificates[0] = of("node")
	if got := callerNameOf(r, ""); got != want {
		t.Errorf("with the certificate of a node: got %q, want %q", got, want)
	}
	r.TLS.PeerCertificates[0] = of("server")
	if got := callerNameOf(r, "x"); got != rootCaller {
		t.Errorf("from a server: got %q, want the caller that it names", got)
	}
	r.Header.Del(HeaderStreamCaller)
	if got := callerNameOf(r, "x"); got != unknownCaller {
		t.Errorf("from a server of a former version: got %q", got)
	}

	r.Header.Del(HeaderPassedOn)
	if got := callerNameOf(r.WithContext(opsocket.Mark(t.Context())), "x"); got != rootCaller {
		t.Errorf("at the operator socket: got %q", got)
	}
}
