// Package transit wraps and unwraps root keys with a key of the transit engine of Vault or OpenBao, by its
// HTTP API. The key never leaves that engine.
//
// A call opens a connection of its own and reads the files of the token and of the authority anew, because
// calls are rare and both files are replaced while a server runs. The package repeats no call: server/keys
// does, as for each key-encryption key. An error names the key, the action and what an operator can do, and
// shows neither the token nor a key.
package transit

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"berth/api/transport"
	"berth/internal/keyring"
	"berth/structs"
)

// Settings name the key and the way to it.
type Settings struct {
	Address   string `hcl:"address"`    // https://host:port; http for this machine alone
	KeyName   string `hcl:"key_name"`   // of the key in the engine
	MountPath string `hcl:"mount_path"` // of the engine, "" for transit
	Namespace string `hcl:"namespace"`  // of the engine, "" for none
	// TokenFile has the token. It is read for each call, so an agent of Vault may renew it.
	TokenFile string `hcl:"token_file"`
	// CAFile has the authorities of the address in PEM, "" for the system's. ServerName is the name in
	// its certificate, "" for the address's.
	CAFile     string `hcl:"ca_file"`
	ServerName string `hcl:"tls_server_name"`
}

// defaultMount is the path at which the engine is by default.
const defaultMount = "transit"

// maxName bounds each name, and maxAddress the address, in bytes.
const (
	maxName    = 256
	maxAddress = 512
)

// path is a name, or several with slashes between them.
var path = regexp.MustCompile(`^[\w.-]*[\w-][\w.-]*(/[\w.-]*[\w-][\w.-]*)*$`)

// Faults lists the faults of the settings, without the name of their block.
func (s *Settings) Faults() (faults []error) {
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if err := checkAddress(s.Address); err != nil {
		bad("address %w", err)
	}

	if s.KeyName == "" || strings.Contains(s.KeyName, "/") {
		bad("key_name is %q; expected the name of a key of the engine",
			structs.Cut(s.KeyName, structs.MaxQuoted))
	}

	// The names become parts of a path, where others would lead to another key or another engine.
	for name, value := range map[string]string{
		"key_name":   s.KeyName,
		"mount_path": s.mount(),
		"namespace":  strings.Trim(s.Namespace, "/"),
	} {
		if value != "" && !path.MatchString(value) || len(value) > maxName {
			bad("%s is %q; expected letters, digits, \"-\", \"_\" and \".\", at most %d bytes",
				name, structs.Cut(value, structs.MaxQuoted), maxName)
		}
	}

	if !filepath.IsAbs(s.TokenFile) {
		bad("token_file is %q; expected the absolute path of a file with the token", s.TokenFile)
	}

	if s.CAFile != "" && !filepath.IsAbs(s.CAFile) {
		bad("ca_file is %q; expected an absolute path", s.CAFile)
	}

	if len(s.ServerName) > maxName {
		bad("tls_server_name has %d bytes; expected at most %d", len(s.ServerName), maxName)
	}

	return faults
}

// checkAddress returns an error that continues the word address.
func checkAddress(address string) error {
	if len(address) > maxAddress {
		return fmt.Errorf("has %d bytes; expected at most %d", len(address), maxAddress)
	}

	u, err := url.Parse(address)

	// A user, a path or a query would be lost when the path of the engine is joined.
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("is %q; expected https://host:port", structs.Cut(address, structs.MaxQuoted))
	}

	if !transport.Private(address) {
		return errors.New("begins with http://, and is not on this machine: root keys would cross the " +
			"network in plain form; expected https://host:port")
	}

	return nil
}

// mount returns the path of the engine without slashes at its ends, as all uses of it need it.
func (s *Settings) mount() string {
	if s.MountPath == "" {
		return defaultMount
	}
	return strings.Trim(s.MountPath, "/")
}

// ID returns the fingerprint of the key. The address is not in it, because servers may reach the same engine
// by several.
func (s *Settings) ID() string {
	// The separator is in no name, so two keys never have the same text.
	names := []string{strings.Trim(s.Namespace, "/"), s.mount(), s.KeyName}
	return keyring.Fingerprint("transit", []byte(strings.Join(names, "\x00")))
}

// String names the key and the address.
func (s *Settings) String() string {
	name := s.mount() + "/" + s.KeyName
	if s.Namespace != "" {
		name = strings.Trim(s.Namespace, "/") + "/" + name
	}
	return "transit key " + name + " at " + s.Address
}
