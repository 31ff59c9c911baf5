package vault

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// The bounds of the files of authorities.
const (
	maxCA      = 1 << 20 // bytes of one
	maxCAFiles = 256     // in a directory
)

// tls returns the configuration of connections. The authorities are read once, the certificate of the agent
// for each connection, because it is replaced while the agent runs.
func (c *Config) tls() (*tls.Config, error) {
	t := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.TLSServerName,
		InsecureSkipVerify: c.TLSSkipVerify,
	}

	var err error
	t.RootCAs, err = c.authorities()
	if err != nil {
		return nil, err
	}

	if c.CertFile == "" {
		return t, nil
	}

	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, structs.Invalidf("vault.cert_file and key_file: %w", err)
		}
		return &pair, nil
	}

	// A fault is known at the start, and not at the first login.
	_, err = load(nil)
	t.GetClientCertificate = load
	return t, err
}

// authorities returns the authorities in the files, nil for the system's.
func (c *Config) authorities() (*x509.CertPool, error) {
	var files []string
	if c.CAFile != "" {
		files = append(files, c.CAFile)
	}

	if c.CAPath != "" {
		list, err := os.ReadDir(c.CAPath)
		if err != nil {
			return nil, structs.Invalidf("vault.ca_path: %w", err)
		}

		if len(list) > maxCAFiles {
			return nil, structs.Invalidf("vault.ca_path: %s has %d files; at most %d are allowed", c.CAPath,
				len(list), maxCAFiles)
		}

		for _, f := range list {
			if !f.IsDir() {
				files = append(files, filepath.Join(c.CAPath, f.Name()))
			}
		}
	}

	if len(files) == 0 {
		return nil, nil
	}

	pool := x509.NewCertPool()
	found := false
	for _, path := range files {
		text, err := readFile(path)
		if err != nil {
			return nil, structs.Invalidf("vault.ca_file or ca_path: %w", err)
		}
		found = pool.AppendCertsFromPEM(text) || found
	}

	if !found {
		return nil, structs.Invalidf("vault.ca_file or ca_path: there is no certificate in PEM")
	}

	return pool, nil
}

// readFile reads a small file.
func readFile(path string) ([]byte, error) {
	// An open of a pipe does not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()

	text, err := io.ReadAll(io.LimitReader(f, maxCA+1))
	if err == nil && len(text) > maxCA {
		err = structs.Invalidf("%s has more than %d bytes", path, maxCA)
	}
	return text, err
}
