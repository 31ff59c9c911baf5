package transport

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"io"
	"os"
	"path/filepath"
	"slices"

	"berth/internal/pki"
	"berth/structs"
)

// A wrong file, for example a device, must not fill the memory.
const (
	maxFile  = 1 << 20 // bytes of a file of certificates
	maxFiles = 1000    // in a directory of certificates
)

// TLS has the settings of a client for TLS. A field that is empty comes from the environment: from
// BERTH_CACERT, BERTH_CAPATH, BERTH_CLIENT_CERT, BERTH_CLIENT_KEY or BERTH_TLS_SERVER_NAME, else from the
// same variable with NOMAD_ in place of BERTH_.
//
// The certificate of the agent is always verified: against the authorities of CACert, else of CAPath, else of
// the system. With one of the two, the connection has TLS 1.3, which every agent speaks.
type TLS struct {
	CACert     string // a file of PEM with the certificates of authorities
	CAPath     string // a directory of such files, with the endings .pem, .crt and .cer
	ClientCert string // a file of PEM with the client's certificate
	ClientKey  string // a file of PEM with its key
	ServerName string // the name that the agent's certificate must have; default: the host of the address
}

func (t TLS) withEnvironment() TLS {
	return TLS{
		CACert:     cmp.Or(t.CACert, environ("CACERT")),
		CAPath:     cmp.Or(t.CAPath, environ("CAPATH")),
		ClientCert: cmp.Or(t.ClientCert, environ("CLIENT_CERT")),
		ClientKey:  cmp.Or(t.ClientKey, environ("CLIENT_KEY")),
		ServerName: cmp.Or(t.ServerName, environ("TLS_SERVER_NAME")),
	}
}

// environ prefers the variable of berth, so both tools can be set up on one machine.
func environ(name string) string {
	return cmp.Or(os.Getenv("BERTH_"+name), os.Getenv("NOMAD_"+name))
}

// config reads the files.
func (t TLS) config() (*tls.Config, error) {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: t.ServerName,
	}

	roots, err := t.roots()
	if err != nil {
		return nil, err
	}

	// An operator who names authorities calls an agent of berth. Otherwise a proxy with TLS 1.2 may be in
	// between.
	if roots != nil {
		c.RootCAs = roots
		c.MinVersion = tls.VersionTLS13
	}

	if t.ClientCert == "" && t.ClientKey == "" {
		return c, nil
	}

	pair, err := t.clientPair()
	if err != nil {
		return nil, err
	}

	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// roots returns the authorities of the settings. nil are the system's.
func (t TLS) roots() (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	switch {
	case t.CACert != "":
		return roots, addFile(roots, t.CACert, "-ca-cert, BERTH_CACERT")
	case t.CAPath != "":
		return roots, addDirectory(roots, t.CAPath)
	}
	return nil, nil
}

// addFile adds the certificates of a file. A damaged one is an error.
func addFile(roots *x509.CertPool, name, options string) error {
	content, err := readFile(name, options)
	if err != nil {
		return err
	}
	// A damaged file could lack the one authority that is needed, so it is not skipped.
	certs, err := pki.ParseCertificates(content)
	if err != nil {
		return structs.Invalidf("%s %w: expected the authority's (%s)", name, err, options)
	}
	for _, cert := range certs {
		roots.AddCert(cert)
	}
	return nil
}

// addDirectory adds the certificates in the files of a directory.
func addDirectory(roots *x509.CertPool, dir string) error {
	const options = "-ca-path, BERTH_CAPATH"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return structs.Invalidf("%w (%s)", err, options)
	}

	if len(entries) > maxFiles {
		return structs.Invalidf("%s has %d files; at most %d are allowed (%s)",
			dir, len(entries), maxFiles, options)
	}

	found := false
	for _, entry := range entries {
		if !slices.Contains([]string{".pem", ".crt", ".cer"}, filepath.Ext(entry.Name())) {
			continue
		}

		err := addFile(roots, filepath.Join(dir, entry.Name()), options)
		if err != nil {
			return err
		}

		found = true
	}

	if !found {
		return structs.Invalidf("the directory %s has no certificate in a file *.pem, *.crt or *.cer (%s)",
			dir, options)
	}

	return nil
}

// clientPair reads the client's certificate and its key. One without the other is a mistake in the
// configuration, which a connection without a certificate would hide.
func (t TLS) clientPair() (tls.Certificate, error) {
	switch {
	case t.ClientKey == "":
		return tls.Certificate{}, structs.Invalidf("the client certificate %s has no key: "+
			"name its file with -client-key or BERTH_CLIENT_KEY", t.ClientCert)
	case t.ClientCert == "":
		return tls.Certificate{}, structs.Invalidf("the client key %s has no certificate: "+
			"name its file with -client-cert or BERTH_CLIENT_CERT", t.ClientKey)
	}

	certPEM, err := readFile(t.ClientCert, "-client-cert, BERTH_CLIENT_CERT")
	if err != nil {
		return tls.Certificate{}, err
	}

	keyPEM, err := readFile(t.ClientKey, "-client-key, BERTH_CLIENT_KEY")
	if err != nil {
		return tls.Certificate{}, err
	}

	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, structs.Invalidf("the client certificate %s does not go with the key %s "+
			"(-client-cert, -client-key): %w", t.ClientCert, t.ClientKey, err)
	}
	return pair, nil
}

// readFile reads a file of bounded size. The error is invalid and names the options of the file.
func readFile(name, options string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, structs.Invalidf("%w (%s)", err, options)
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, structs.Invalidf("%w (%s)", err, options)
	}
	if len(b) > maxFile {
		return nil, structs.Invalidf("%s has more than %d bytes: it is no file of certificates (%s)",
			name, maxFile, options)
	}
	return b, nil
}
