// Package peertls secures the connections of agents with TLS: of servers and nodes with each other, and
// of operators with the HTTP API. Both ends have a certificate of the cluster's authority, and the role
// in it (see internal/pki) decides what the holder may do. The names and addresses of hosts decide
// nothing, because machines move.
//
// The keys are files. They are read again when they change. Connections that are open stay open until the
// certificate of their other end ends or is revoked.
package peertls

import (
	"berth/structs/validate/field"
)

// Mode says which connections an agent has.
type Mode string

const (
	// ModeUnset is ModeOff, of an agent whose configuration says nothing about TLS.
	ModeUnset Mode = ""
	// ModeOff is plain TCP.
	ModeOff Mode = "off"
	// ModePrefer is TLS with agents that speak it, and plain TCP with others. It is for the time in which a
	// cluster changes from one to the other.
	ModePrefer Mode = "prefer"
	// ModeRequire is TLS alone.
	ModeRequire Mode = "require"
)

// Config has the settings of TLS. The agent's configuration file has it as its `tls` block.
type Config struct {
	Mode     Mode   `hcl:"mode"`      // off, prefer or require
	CAFile   string `hcl:"ca_file"`   // the certificates of the authorities, in PEM
	CertFile string `hcl:"cert_file"` // the certificate of this agent, in PEM
	KeyFile  string `hcl:"key_file"`  // the key of the certificate, in PEM
	// PlainLoopback lets programs of this machine call the HTTP API in plain text at a loopback address while
	// TLS is required. Each task with the network of the machine is one.
	PlainLoopback bool `hcl:"plain_loopback"`
	// CAKeyFile is the key of the authority in CAFile. The first leader stores it in the cluster, encrypted,
	// and then the file may go.
	CAKeyFile string `hcl:"ca_key_file"`
	// Renew makes the agent renew its certificate: the servers are the authority.
	Renew bool `hcl:"renew"`
}

// On reports whether the agent speaks TLS.
func (c Config) On() bool { return c.Mode != ModeUnset && c.Mode != ModeOff }

// Required reports whether the agent speaks nothing but TLS.
func (c Config) Required() bool { return c.Mode == ModeRequire }

// Validate returns an error that names all faults of the settings.
func (c Config) Validate() error {
	f := field.New("tls")
	modes := []string{string(ModeOff), string(ModePrefer), string(ModeRequire)}
	if c.Mode != ModeUnset {
		f.CheckOneOf("mode", string(c.Mode), modes)
	}

	f.Require(!c.PlainLoopback || c.Required(), "plain_loopback is set; expected mode \"require\" with it")
	if !c.On() {
		return f.Err()
	}

	for _, file := range c.files() {
		f.Require(file.path != "", "%s is required with mode %q; make the files with `berth tls init` "+
			"on the first server and `berth tls join` on the others, or with `berth tls cert create`",
			file.setting, c.Mode)
	}

	return f.Err()
}

// pemFile is a file with the name of its setting.
type pemFile struct {
	setting string
	path    string
}

// files lists the files: the authorities, the certificate and its key.
func (c Config) files() [3]pemFile {
	return [3]pemFile{
		{"ca_file", c.CAFile},
		{"cert_file", c.CertFile},
		{"key_file", c.KeyFile},
	}
}
