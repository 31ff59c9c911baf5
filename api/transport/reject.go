package transport

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"berth/internal/pki"
)

// reasons has the meaning of alerts on the certificate of a client.
var reasons = map[uint8]string{
	alertRevoked:   "it is revoked",
	alertExpired:   "it is not valid at this time",
	alertUnknownCA: "its authority is not the cluster's",
	// A client offers only a certificate of an authority that the agent has named.
	alertCertRequired: "its authority is not the cluster's", // the client kept it back for that
}

// reason returns the meaning of an alert. An agent rejects each certificate with the same alert, so the rest
// comes from the certificate itself.
func (t *Transport) reason(alert uint8) string {
	pairs := t.HTTP.TLSClientConfig.Certificates
	if alert == alertBadCertificate && len(pairs) > 0 && pairs[0].Leaf != nil {
		fault := t.certificateFault(pairs[0].Leaf, pairs[0].Certificate[1:])
		return cmp.Or(fault, "the log of the agent has the reason")
	}
	return cmp.Or(reasons[alert], fmt.Sprintf("the alert of TLS has the number %d", alert))
}

// certificateFault returns the reason why no agent takes a client certificate, "" if none is known here.
// between has the certificates that lead to its authority. These are the checks of an agent, made with what
// the client knows. So the text has the reason that the alert lacks.
func (t *Transport) certificateFault(leaf *x509.Certificate, between [][]byte) string {
	now := time.Now()
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return reasons[alertExpired]
	}

	id, err := pki.IdentityOf(leaf)
	if err != nil {
		return err.Error()
	}

	if id.Role == pki.RoleNode {
		return "it is of the role node, and the HTTP API takes the role operator " +
			"(`berth tls cert create -cli` makes it)"
	}

	// Without the authorities of the cluster nobody can tell here whether they have signed it.
	roots := t.HTTP.TLSClientConfig.RootCAs
	if roots == nil {
		return ""
	}

	options := x509.VerifyOptions{
		Roots:         roots,
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}

	for _, der := range between {
		c, err := x509.ParseCertificate(der)
		if err == nil {
			options.Intermediates.AddCert(c)
		}
	}

	_, err = leaf.Verify(options)
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return "none of the authorities in " + cmp.Or(t.tls.CACert, t.tls.CAPath) + " has signed it"
	case err != nil:
		return err.Error()
	}

	return ""
}
