package consul

import (
	"errors"
	"io"
	"os"

	"berth/structs"
)

// maxCA bounds the bytes of the certificates in the file of the configuration.
const maxCA = 1 << 20

// Access tells a program of a task how to reach the HTTP API of Consul in the network of the node.
type Access struct {
	Address string // host:port or unix:///path
	SSL     bool   // it talks https
	// VerifySSL says that the program verifies the certificate of Consul.
	VerifySSL bool
	CA        string // certificates in PEM for that, "" for the system's
}

// Access returns the address and the authority of the configuration, and none of the agent's own secrets: its
// token, its password and its key stay with the agent.
func (l *Link) Access() (*Access, error) {
	u, err := l.config.url()
	if err != nil {
		return nil, err
	}

	// Over a socket there is no TLS to verify.
	if u.Scheme == "unix" {
		return &Access{Address: "unix://" + u.Path}, nil
	}

	a := &Access{Address: u.Host}
	if u.Scheme != "https" {
		return a, nil
	}

	a.SSL = true
	a.VerifySSL = l.config.VerifySSL
	if l.config.CAFile != "" {
		a.CA, err = readCA(l.config.CAFile)
	}

	return a, err
}

// readCA reads the file at each call, because a new authority replaces it.
func readCA(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", structs.Preconditionf("consul.ca_file: %w", err)
	}

	// One byte more than the bound tells a file that is too long from one that fits.
	text, err := io.ReadAll(io.LimitReader(f, maxCA+1))
	err = errors.Join(err, f.Close())
	if err == nil && len(text) > maxCA {
		err = structs.Invalidf("it has more than %d bytes", maxCA)
	}
	if err != nil {
		return "", structs.Preconditionf("consul.ca_file: reading %s: %w", path, err)
	}
	return string(text), nil
}
