package authority

import (
	"os"

	"berth/internal/pki"
	"berth/structs"
)

// Files are the files of an authority that the first leader takes into the rows.
type Files struct {
	Cert string // the certificates of the authorities; one of them has the key
	Key  string // "": there is none to take in
}

// Read returns the authority, nil if there is no key file: it may go once the rows have the key.
func (f Files) Read() (*pki.Authority, error) {
	if f.Key == "" {
		return nil, nil
	}

	keyPEM, err := os.ReadFile(f.Key)
	if os.IsNotExist(err) {
		return nil, nil
	}

	if err != nil {
		return nil, structs.Invalidf("tls: ca_key_file: %w", err)
	}

	certPEM, err := os.ReadFile(f.Cert)
	if err != nil {
		return nil, structs.Invalidf("tls: ca_file: %w", err)
	}

	a, err := pki.ParseAuthority(certPEM, keyPEM)
	if err != nil {
		return nil, structs.Invalidf("tls: ca_file %s, ca_key_file %s: %w", f.Cert, f.Key, err)
	}

	return a, nil
}
