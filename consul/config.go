package consul

import (
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"berth/internal/idtoken"
	"berth/structs"
	"berth/structs/validate/field"
)

// The bounds of the configuration.
const (
	minTimeout = 100 * time.Millisecond
	maxTimeout = time.Minute
	maxTags    = 64
)

// Secret is a text that no log, event or answer shows.
type Secret = structs.Secret

// Config is the `consul {}` block of an agent: how it reaches the Consul agent of its machine, and what it
// does there.
type Config struct {
	Address     string `hcl:"address"`      // host:port, a URL or unix:///path; "" turns Consul off
	GRPCAddress string `hcl:"grpc_address"` // host:port or unix:///path, for sidecars
	Token       Secret `hcl:"token"`        // of Consul's ACLs
	TokenFile   string `hcl:"token_file"`   // has the token; it is read again when it changes
	Auth        Secret `hcl:"auth"`         // user:password of HTTP

	SSL       bool   `hcl:"ssl"`        // talk to the address by https
	VerifySSL bool   `hcl:"verify_ssl"` // verify the certificate of Consul
	CAFile    string `hcl:"ca_file"`
	CertFile  string `hcl:"cert_file"` // of this agent
	KeyFile   string `hcl:"key_file"`  // of this agent
	// Timeout bounds each request to Consul.
	Timeout time.Duration `hcl:"timeout"`

	// ProxyPath and EnvoyPath are the programs consul and envoy, which run the proxies of the service mesh;
	// "" looks for them in the PATH of the agent. Envoy wins.
	ProxyPath string `hcl:"proxy_path"`
	EnvoyPath string `hcl:"envoy_path"`

	// AutoAdvertise registers this agent in Consul.
	AutoAdvertise     bool     `hcl:"auto_advertise"`
	ServerServiceName string   `hcl:"server_service_name"`
	ClientServiceName string   `hcl:"client_service_name"`
	Tags              []string `hcl:"tags"` // of the agent's own services
	// ChecksUseAdvertise makes Consul check the advertised addresses of this agent, not the ones that it
	// listens on.
	ChecksUseAdvertise bool `hcl:"checks_use_advertise"`
	// ServerAutoJoin and ClientAutoJoin look for servers in Consul, where no address of a server is
	// configured.
	ServerAutoJoin bool `hcl:"server_auto_join"`
	ClientAutoJoin bool `hcl:"client_auto_join"`
	// AllowUnauthenticated lets jobs register services without a token of their submitter.
	AllowUnauthenticated bool `hcl:"allow_unauthenticated"`

	// ServiceIdentity and TaskIdentity are the identities with which services and tasks log in, unless they
	// name one themselves. The servers add them to jobs. Without them, the agent of the node uses its token.
	ServiceIdentity idtoken.LoginSettings `hcl:"service_identity,block"`
	TaskIdentity    idtoken.LoginSettings `hcl:"task_identity,block"`
	// ServiceAuthMethod and TaskAuthMethod are the auth methods at which the node logs in.
	ServiceAuthMethod string `hcl:"service_auth_method"`
	TaskAuthMethod    string `hcl:"task_auth_method"`
}

// Rejected has the settings of the dialect that berth does not have, with what to do instead.
func (Config) Rejected() map[string]string {
	return map[string]string{
		"namespace": "namespaces are a feature of Consul's enterprise edition; leave it out",
		"partition": "partitions are a feature of Consul's enterprise edition; leave it out",
	}
}

// DefaultConfig returns the configuration for a Consul agent with its default address on this machine.
func DefaultConfig() Config {
	return Config{
		Address:              "127.0.0.1:8500",
		VerifySSL:            true,
		Timeout:              5 * time.Second,
		AutoAdvertise:        true,
		ServerServiceName:    "berth",
		ClientServiceName:    "berth-client",
		ServerAutoJoin:       true,
		ClientAutoJoin:       true,
		AllowUnauthenticated: true,
		ServiceAuthMethod:    DefaultAuthMethod,
		TaskAuthMethod:       DefaultAuthMethod,
	}
}

// Enabled reports whether the agent uses Consul.
func (c *Config) Enabled() bool { return c.Address != "" }

// Validate reports every fault at once, each beginning with the path of its setting.
func (c *Config) Validate() error {
	var faults []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, structs.Invalidf(format, args...))
		}
	}

	if !c.Enabled() {
		// Without Consul there would be a check that nobody makes.
		require(c.AllowUnauthenticated,
			"consul.allow_unauthenticated: Consul checks the tokens of submitters, "+
				"and consul.address is empty; set the address or leave this out")
		require(!c.ServiceIdentity.Enabled() && !c.TaskIdentity.Enabled(),
			"consul.service_identity and task_identity: consul.address is empty; set it, or leave them out")
		return structs.InvalidAll(faults)
	}

	_, err := c.url()
	require(err == nil, "consul.address: %w", err)
	_, err = parseAddress(c.GRPCAddress, false)
	require(c.GRPCAddress == "" || err == nil, "consul.grpc_address: %w", err)

	// Each text goes into requests and arguments, which a line break would split.
	for _, s := range []struct {
		name, text string
		most       int
	}{
		{"address", c.Address, structs.MaxName},
		{"grpc_address", c.GRPCAddress, structs.MaxName},
		{"token", string(c.Token), structs.MaxName},
		{"auth", string(c.Auth), structs.MaxText},
		{"token_file", c.TokenFile, structs.MaxText},
		{"ca_file", c.CAFile, structs.MaxText},
		{"cert_file", c.CertFile, structs.MaxText},
		{"key_file", c.KeyFile, structs.MaxText},
		{"proxy_path", c.ProxyPath, structs.MaxText},
		{"envoy_path", c.EnvoyPath, structs.MaxText},
	} {
		require(len(s.text) <= s.most, "consul.%s: it has %d bytes; at most %d are allowed",
			s.name, len(s.text), s.most)
		require(!strings.ContainsAny(s.text, "\x00\r\n"), "consul.%s: it must be one line", s.name)
	}

	require(c.Auth == "" || strings.Contains(string(c.Auth), ":"), "consul.auth: expected user:password")
	c.validateFiles(require)
	c.validateOwn(require)
	faults = append(faults, c.ServiceIdentity.Faults("consul.service_identity")...)
	faults = append(faults, c.TaskIdentity.Faults("consul.task_identity")...)
	faults = append(faults, idtoken.CheckLoginMethod("consul.service_auth_method", c.ServiceAuthMethod),
		idtoken.CheckLoginMethod("consul.task_auth_method", c.TaskAuthMethod))
	require(c.Timeout >= minTimeout && c.Timeout <= maxTimeout, "consul.timeout: %s is not within %s to %s",
		c.Timeout, minTimeout, maxTimeout)
	return structs.InvalidAll(faults)
}

// require reports a fault unless ok.
type require = func(ok bool, format string, args ...any)

// validateFiles checks the paths only. The files may come later, or change while the agent runs.
func (c *Config) validateFiles(require require) {
	for _, f := range []struct{ name, path string }{
		{"token_file", c.TokenFile},
		{"ca_file", c.CAFile},
		{"cert_file", c.CertFile},
		{"key_file", c.KeyFile},
		{"proxy_path", c.ProxyPath},
		{"envoy_path", c.EnvoyPath},
	} {
		require(f.path == "" || filepath.IsAbs(f.path), "consul.%s: %q is not an absolute path", f.name,
			f.path)
	}
	require(c.Token == "" || c.TokenFile == "",
		"consul.token_file: there is a token, too; expected one of both")
	require((c.CertFile == "") == (c.KeyFile == ""), "consul.cert_file and key_file: expected both or none")
}

// validateOwn checks the settings of the agent's own services and of jobs' services.
func (c *Config) validateOwn(require require) {
	require(field.IsServiceName(c.ServerServiceName),
		"consul.server_service_name: %q is not the name of a service", c.ServerServiceName)
	require(field.IsServiceName(c.ClientServiceName),
		"consul.client_service_name: %q is not the name of a service", c.ClientServiceName)
	require(len(c.Tags) <= maxTags, "consul.tags: there are %d; at most %d are allowed", len(c.Tags), maxTags)
	for _, tag := range c.Tags {
		require(tag != "" && len(tag) <= structs.MaxName,
			"consul.tags: a tag must have 1 to %d bytes", structs.MaxName)
	}
}

// url returns the address with its scheme.
func (c *Config) url() (*url.URL, error) { return parseAddress(c.Address, c.SSL) }

var errAddress = structs.Invalidf(
	"expected host:port, http://host:port, https://host:port or unix:///path")

// parseAddress reads host:port, a URL of http or https without a path, or unix:///path.
func parseAddress(text string, https bool) (*url.URL, error) {
	// url.Parse would take the host for a scheme, or reject the port.
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}

	u, err := url.Parse(text)
	if err != nil {
		return nil, errAddress
	}

	if u.Scheme == "unix" && u.Host == "" && filepath.IsAbs(u.Path) {
		return u, nil
	}

	_, port, err := net.SplitHostPort(u.Host)

	// A password in the address would be shown with it. The setting auth is for that.
	bare := u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == ""
	if err != nil || port == "" || !bare || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errAddress
	}

	// The setting ssl wins over a scheme of http.
	if https {
		u.Scheme = "https"
	}

	return u, nil
}

// Redact describes the block without its secrets.
func (c *Config) Redact() map[string]any {
	shown := func(s Secret) string {
		if s == "" {
			return ""
		}
		return structs.Redacted
	}

	// The names are the dialect's. Each one is listed, so a new setting is not shown by accident.
	return map[string]any{
		"Addr":                      c.Address,
		"GRPCAddr":                  c.GRPCAddress,
		"Token":                     shown(c.Token),
		"TokenFile":                 c.TokenFile,
		"Auth":                      shown(c.Auth),
		"EnableSSL":                 c.SSL,
		"VerifySSL":                 c.VerifySSL,
		"CAFile":                    c.CAFile,
		"CertFile":                  c.CertFile,
		"KeyFile":                   c.KeyFile,
		"Timeout":                   c.Timeout,
		"ProxyPath":                 c.ProxyPath,
		"EnvoyPath":                 c.EnvoyPath,
		"AutoAdvertise":             c.AutoAdvertise,
		"ServerServiceName":         c.ServerServiceName,
		"ClientServiceName":         c.ClientServiceName,
		"Tags":                      c.Tags,
		"ChecksUseAdvertise":        c.ChecksUseAdvertise,
		"ServerAutoJoin":            c.ServerAutoJoin,
		"ClientAutoJoin":            c.ClientAutoJoin,
		"AllowUnauthenticated":      c.AllowUnauthenticated,
		"ServiceIdentity":           c.ServiceIdentity.Redact(),
		"TaskIdentity":              c.TaskIdentity.Redact(),
		"ServiceIdentityAuthMethod": c.ServiceAuthMethod,
		"TaskIdentityAuthMethod":    c.TaskAuthMethod,
	}
}
