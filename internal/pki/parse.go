package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"

	"berth/structs"
)

// ParseCertificates returns the certificates of a file in PEM, at least one. It rejects a file with a damaged
// one: without it, an authority would be missing. The error is invalid, and continues the name of the file.
func ParseCertificates(content []byte) ([]*x509.Certificate, error) {
	begun := bytes.Count(content, []byte("-----BEGIN "+blockCert+"-----"))
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		block, content = pem.Decode(content)
		if block == nil {
			break
		}
		// A file may have its key beside the certificates.
		if block.Type != blockCert {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, structs.Invalidf("has a damaged certificate, number %d: %w", len(certs)+1, err)
		}
		certs = append(certs, cert)
	}

	switch {
	case len(certs) < begun: // the decoder skips a block that is not in PEM
		return nil, structs.Invalidf("begins %d certificates, and %d are in PEM: the others are damaged",
			begun, len(certs))
	case len(certs) == 0:
		return nil, structs.Invalidf("has no certificate in PEM")
	}

	return certs, nil
}
