package pki

import (
	"crypto/x509"
	"slices"
)

// NamesOf returns the DNS names and addresses of a certificate beside its role's, for the next
// certificate of its holder.
func NamesOf(cert *x509.Certificate, id Identity) []string {
	own := Request{Identity: id}.allNames()
	var names []string
	for _, name := range cert.DNSNames {
		if !slices.Contains(own, name) {
			names = append(names, name)
		}
	}

	for _, ip := range cert.IPAddresses {
		if !slices.Contains(own, ip.String()) {
			names = append(names, ip.String())
		}
	}

	return names
}
