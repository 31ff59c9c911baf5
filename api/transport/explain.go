package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/internal/netfault"
	"berth/internal/pki"
	"berth/structs"
)

// The alerts of TLS (RFC 8446, 6.2) by which an agent rejects the certificate of a client. An agent ends the
// handshake with a number alone, so the words come from here.
const (
	alertHandshake      = 40
	alertBadCertificate = 42
	alertRevoked        = 44
	alertExpired        = 45
	alertUnknownCA      = 48
	alertVersion        = 70
	alertCertRequired   = 116
)

// maxNames is the number of bytes of the names of a certificate that an error quotes.
const maxNames = 256

// Explain returns the error of a request without an answer: its kind, and the reason in plain words. ctx is
// the request's.
func (t *Transport) Explain(ctx context.Context, err error) error {
	var op *net.OpError
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // drops the URL, because the text has the address already
	}

	// The order matters: an ended context makes each other fault.
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return structs.Timeoutf("no answer from the agent at %s in time", t.address)
	case ctx.Err() != nil:
		return structs.Timeoutf("the call was cancelled: %w", ctx.Err())
	case wrapped != nil && t.otherBase(wrapped.URL) != "":
		return structs.Unavailablef("%s redirects to %s, which does not answer: %w; if the agent is there, name "+
			"that address with -address or BERTH_ADDR",
			t.address, structs.Cut(t.otherBase(wrapped.URL), maxNames), netfault.Plain(err))
	// Nothing was sent, so the request can be repeated.
	case errors.As(err, &op) && op.Op == "dial":
		return structs.Unavailablef(
			"no agent can be reached at %s (-address, BERTH_ADDR): %w", t.address, netfault.Plain(err))
	}

	if t.Base.Scheme == "https" {
		fault := t.tlsFault(err)
		if fault != nil {
			return fault
		}
	}

	// The agent may have got the request, so the outcome is unknown.
	return structs.Timeoutf("the agent at %s did not answer: %w%s%s",
		t.address, netfault.Plain(err), t.portHint(), t.certHint(err))
}

// otherBase returns the address to which a read was redirected, "" for the address of the agent itself.
func (t *Transport) otherBase(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.Scheme == t.Base.Scheme && u.Host == t.Base.Host {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// portHint explains a lost connection to a port that, by default, does not serve HTTP.
func (t *Transport) portHint() string {
	port := t.Base.Port()
	if port != "4747" && port != "4748" {
		return ""
	}
	return "; port " + port + " is one of the servers' own, the HTTP API has port 4746 (-address, BERTH_ADDR)"
}

// certHint explains a connection that the agent may have ended because of the client's certificate. The alert
// with the reason is lost if the agent closes the connection while the body of a request is on its way.
func (t *Transport) certHint(err error) string {
	switch {
	case t.Base.Scheme != "https" || !netfault.IsLost(err):
		return ""
	case t.tls.ClientCert == "":
		return "; if it requires a client certificate, name one with -client-cert and -client-key"
	}
	return "; if it rejects the client certificate " + t.tls.ClientCert + ", its log has the reason"
}

// tlsFault explains the end of a handshake. It returns nil for other errors.
func (t *Transport) tlsFault(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var other *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return structs.Invalidf(
			"the agent at %s speaks http and not https: use http:// in -address or BERTH_ADDR", t.address)
	case errors.As(err, &header):
		return structs.Invalidf("there is no TLS at %s: the address is of another protocol, "+
			"or the agent has none and expects http:// (-address, BERTH_ADDR)%s", t.address, t.portHint())
	case errors.As(err, &unknown):
		return t.unknownAuthority(unknown.Cert)
	case errors.As(err, &name):
		return t.otherName(name)
	case errors.As(err, &invalid):
		return t.invalidCertificate(invalid)
	case errors.As(err, &other):
		return structs.Invalidf("the certificate of the agent at %s is not valid: %w", t.address, other)
	}

	alert, ok := netfault.TLSAlert(err)
	if !ok {
		return nil
	}

	return t.rejected(alert)
}

func (t *Transport) unknownAuthority(cert *x509.Certificate) error {
	issuer := "an unknown authority"
	if cert != nil {
		issuer = fmt.Sprintf("the authority %q", cert.Issuer)
	}
	source := cmp.Or(t.tls.CACert, t.tls.CAPath)
	if source == "" {
		return structs.Invalidf("the certificate of the agent at %s comes from %s, which this machine does not "+
			"know: name the file of its certificate with -ca-cert or BERTH_CACERT", t.address, issuer)
	}
	return structs.Invalidf("the certificate of the agent at %s comes from %s, and none of %s has signed it: "+
		"name the authority of this cluster with -ca-cert or BERTH_CACERT", t.address, issuer, source)
}

// otherName explains that the certificate of the agent is for other names. A certificate of berth has the
// name of its role, which every agent has: that name helps more than an address.
func (t *Transport) otherName(err x509.HostnameError) error {
	names := slices.Clone(err.Certificate.DNSNames)
	for _, ip := range err.Certificate.IPAddresses {
		names = append(names, ip.String())
	}
	return structs.Invalidf("the certificate of the agent at %s is not for the name %q (names: %s): "+
		"name one of its own with -tls-server-name or BERTH_TLS_SERVER_NAME%s",
		t.address, err.Host, structs.Cut(strings.Join(names, ", "), maxNames), example(err.Certificate))
}

// example returns the name that the certificate of an agent of berth always has.
func example(cert *x509.Certificate) string {
	id, err := pki.IdentityOf(cert)
	if err != nil {
		return ""
	}
	return ", for example " + pki.Name(id.Role, id.Region)
}

// invalidCertificate explains that a certificate of the agent is not valid, mostly because of the time.
func (t *Transport) invalidCertificate(err x509.CertificateInvalidError) error {
	now := time.Now()
	cert := err.Cert
	if cert == nil || !now.Before(cert.NotBefore) && !now.After(cert.NotAfter) {
		return structs.Invalidf("the certificate of the agent at %s is not valid: %w", t.address, err)
	}
	return structs.Unavailablef("the certificate %q of the agent at %s is valid from %s until %s, and it is %s "+
		"here: give the agent a new one, or set the clock of this machine",
		cert.Subject, t.address, formatTime(cert.NotBefore), formatTime(cert.NotAfter), formatTime(now))
}

// rejected explains the alert by which an agent ended the connection. The alert does not say which
// certificate the agent wants. The advice depends on the certificates that the client has.
func (t *Transport) rejected(alert uint8) error {
	reason := t.reason(alert)
	asksForOne := alert == alertCertRequired || alert == alertBadCertificate || alert == alertHandshake
	switch {
	case alert == alertVersion:
		return structs.Invalidf("the agent at %s does not speak the version of TLS that -ca-cert and "+
			"BERTH_CACERT ask for: an agent of berth speaks 1.3", t.address)
	case t.tls.ClientCert == "" && asksForOne:
		return structs.Deniedf("the agent at %s requires a client certificate: "+
			"name one of the role operator with -client-cert and -client-key, "+
			"or BERTH_CLIENT_CERT and BERTH_CLIENT_KEY (`berth tls cert create -cli` makes it)", t.address)
	case t.tls.ClientCert == "":
		return structs.Deniedf("the agent at %s has ended the handshake of TLS: %s", t.address, reason)
	}
	return structs.Deniedf("the agent at %s rejects the client certificate %s (-client-cert): %s%s",
		t.address, t.tls.ClientCert, reason, t.clientFacts())
}

// clientFacts returns the issuer and the time of the client's certificate.
func (t *Transport) clientFacts() string {
	pairs := t.HTTP.TLSClientConfig.Certificates
	if len(pairs) == 0 || pairs[0].Leaf == nil {
		return ""
	}
	leaf := pairs[0].Leaf
	return fmt.Sprintf("; it is of %q, valid from %s until %s",
		leaf.Issuer, formatTime(leaf.NotBefore), formatTime(leaf.NotAfter))
}

func formatTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }
