package vault

import (
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"berth/internal/idtoken"
	"berth/structs"
)

// The defaults of the configuration, which are those of the dialect.
const (
	DefaultAddress  = "https://vault.service.consul:8200"
	DefaultAuthPath = "jwt-nomad"
)

// The bounds of the configuration.
const (
	maxAddress = 512
	minTimeout = 100 * time.Millisecond
	maxTimeout = time.Minute
)

// Config is the `vault {}` block of an agent. A node uses all of it, a server the default identity alone.
type Config struct {
	Enabled   bool   `hcl:"enabled"`
	Address   string `hcl:"address"`   // https://host:port; http for this machine alone
	Namespace string `hcl:"namespace"` // of Vault, "" for none

	CAFile        string `hcl:"ca_file"`   // authorities in PEM, "" for the system's
	CAPath        string `hcl:"ca_path"`   // a directory of such files
	CertFile      string `hcl:"cert_file"` // of this agent
	KeyFile       string `hcl:"key_file"`  // of this agent
	TLSServerName string `hcl:"tls_server_name"`
	TLSSkipVerify bool   `hcl:"tls_skip_verify"`
	// Timeout bounds each request to Vault.
	Timeout time.Duration `hcl:"timeout"`

	// JWTAuthBackendPath is the mount path of the auth method at which tasks log in.
	JWTAuthBackendPath string `hcl:"jwt_auth_backend_path"`
	// CreateFromRole is the role of a task that names none; "" leaves the choice to the auth method.
	CreateFromRole string `hcl:"create_from_role"`
	// DefaultIdentity is what a task with a vault block logs in with, unless it names an identity itself.
	DefaultIdentity idtoken.LoginSettings `hcl:"default_identity,block"`
}

// Rejected has the settings of the dialect that berth does not have, with what to do instead.
func (Config) Rejected() map[string]string {
	const tokens = "tasks log in with their identities; leave it out"
	return map[string]string{
		"token":                 tokens,
		"task_token_ttl":        tokens,
		"allow_unauthenticated": tokens,
		"name":                  "an agent uses one Vault; leave it out",
	}
}

// DefaultConfig returns the configuration of an agent that uses no Vault.
func DefaultConfig() Config {
	return Config{
		Address:            DefaultAddress,
		JWTAuthBackendPath: DefaultAuthPath,
		Timeout:            10 * time.Second,
	}
}

// path is a name, or several with slashes between them.
var path = regexp.MustCompile(`^[\w.-]*[\w-][\w.-]*(/[\w.-]*[\w-][\w.-]*)*$`)

// IsPath reports whether a text is a mount path or a namespace: it stays in its place within an address.
func IsPath(text string) bool { return len(text) <= structs.MaxName && path.MatchString(text) }

// Validate reports every fault at once, each beginning with the path of its setting.
func (c *Config) Validate() error {
	faults := c.DefaultIdentity.Faults("vault.default_identity")
	require := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, structs.Invalidf(format, args...))
		}
	}

	require(c.Enabled || !c.DefaultIdentity.Enabled(),
		"vault.default_identity: vault.enabled is false; set it, or leave the identity out")
	if !c.Enabled {
		return structs.InvalidAll(faults)
	}

	err := checkAddress(c.Address)
	require(err == nil, "vault.address %w", err)
	namespace := strings.Trim(c.Namespace, "/")
	require(namespace == "" || IsPath(namespace), "vault.namespace: %q is no namespace of Vault",
		structs.Cut(c.Namespace, structs.MaxQuoted))
	require(IsPath(strings.Trim(c.JWTAuthBackendPath, "/")),
		"vault.jwt_auth_backend_path: %q is no path of an auth method",
		structs.Cut(c.JWTAuthBackendPath, structs.MaxQuoted))
	require(c.CreateFromRole == "" || IsPath(c.CreateFromRole) && !strings.Contains(c.CreateFromRole, "/"),
		"vault.create_from_role: %q is no name of a role", structs.Cut(c.CreateFromRole, structs.MaxQuoted))
	require(len(c.TLSServerName) <= structs.MaxName, "vault.tls_server_name: it has %d bytes; at most %d are allowed", len(c.TLSServerName), structs.MaxName)
	for _, f := range []struct{ name, path string }{
		{"ca_file", c.CAFile},
		{"ca_path", c.CAPath},
		{"cert_file", c.CertFile},
		{"key_file", c.KeyFile},
	} {
		require(f.path == "" || filepath.IsAbs(f.path) && len(f.path) <= structs.MaxText,
			"vault.%s: %q is not an absolute path", f.name, structs.Cut(f.path, structs.MaxQuoted))
	}

	require((c.CertFile == "") == (c.KeyFile == ""), "vault.cert_file and key_file: expected both or none")
	require(c.Timeout >= minTimeout && c.Timeout <= maxTimeout, "vault.timeout: %s is not within %s to %s",
		c.Timeout, minTimeout, maxTimeout)
	return structs.InvalidAll(faults)
}

// checkAddress returns an error that continues the word address.
func checkAddress(address string) error {
	u, err := url.Parse(address)

	// A user, a path or a query would be lost when the path of a request is joined.
	if err != nil || len(address) > maxAddress || u.Scheme != "http" && u.Scheme != "https" ||
		u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
		u.Fragment != "" {
		return structs.Invalidf("is %q; expected https://host:port", structs.Cut(address, structs.MaxQuoted))
	}

	if u.Scheme == "http" && !isLocal(u.Hostname()) {
		return structs.Invalidf("begins with http://, and is not on this machine: tokens would cross the " +
			"network in plain form; expected https://host:port")
	}

	return nil
}

// isLocal reports whether a host is this machine. A name other than localhost may lead anywhere.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Redact describes the block. It has no secrets. The names are the dialect's.
func (c *Config) Redact() map[string]any {
	return map[string]any{
		"Enabled":            c.Enabled,
		"Addr":               c.Address,
		"Namespace":          c.Namespace,
		"TLSCaFile":          c.CAFile,
		"TLSCaPath":          c.CAPath,
		"TLSCertFile":        c.CertFile,
		"TLSKeyFile":         c.KeyFile,
		"TLSServerName":      c.TLSServerName,
		"TLSSkipVerify":      c.TLSSkipVerify,
		"Timeout":            c.Timeout,
		"JWTAuthBackendPath": c.JWTAuthBackendPath,
		"Role":               c.CreateFromRole,
		"DefaultIdentity":    c.DefaultIdentity.Redact(),
	}
}
