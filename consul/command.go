package consul

import (
	"cmp"
	"context"
	"os/exec"
	"strconv"

	"berth/structs"
)

// ACLs reports whether the ACLs of Consul are on. It waits for the first answer of Consul. An error has the
// reason for which there is none.
func (l *Link) ACLs(ctx context.Context) (bool, error) {
	select {
	case <-l.fingerprint.available:
	case <-ctx.Done():
		// The reason is more use than the end of the wait.
		fault := l.fingerprint.lastFault()
		if fault == nil {
			fault = ctx.Err()
		}
		return false, structs.Unavailablef("the Consul of this node does not answer: %w", fault)
	}

	// A Consul whose description lacks the attribute counts as one without ACLs.
	return l.Attributes()[factACLs] == strconv.FormatBool(true), nil
}

// Command is a call of the program consul that reaches Consul as the agent does, but without its token.
type Command struct {
	Program string   // its path
	Args    []string // after the arguments that say what to do
	Env     []string // the whole environment
}

// Command returns the program of the configuration, or that in the PATH of the agent. Secrets are in its
// environment, because other users of the machine see arguments. The error is a failed precondition if there
// is no program.
func (l *Link) Command() (*Command, error) {
	// It is looked up at each call, because an operator may install it while the agent runs.
	program, err := exec.LookPath(cmp.Or(l.config.ProxyPath, "consul"))
	if err != nil {
		return nil, structs.Preconditionf("the program consul: %w; install it, or set consul.proxy_path", err)
	}

	c := &Command{Program: program}
	u, err := l.config.url()
	if err != nil {
		return nil, err
	}

	// The paths are no secrets: only the text of a key is one.
	c.Args = append(c.Args, "-http-addr", u.String())

	// The proxy gets its token by a way of its own: see ADR 46.
	for _, f := range []struct{ name, path string }{
		{"-ca-file", l.config.CAFile},
		{"-client-cert", l.config.CertFile},
		{"-client-key", l.config.KeyFile},
	} {
		if f.path != "" {
			c.Args = append(c.Args, f.name, f.path)
		}
	}

	// Where the HTTP API has TLS, gRPC has it, too: see factAttributes.
	if u.Scheme == "https" && l.config.CAFile != "" {
		c.Args = append(c.Args, "-grpc-ca-file", l.config.CAFile)
	}

	if l.config.Auth != "" {
		c.Env = append(c.Env, "CONSUL_HTTP_AUTH="+string(l.config.Auth))
	}

	if u.Scheme == "https" {
		c.Env = append(c.Env, "CONSUL_HTTP_SSL_VERIFY="+strconv.FormatBool(l.config.VerifySSL))
	}

	return c, nil
}

// GRPCAddress returns the address of the gRPC API of Consul in the form of the program consul: host:port,
// https://host:port or unix:///path. The error is a failed precondition if Consul has none.
func (l *Link) GRPCAddress() (string, error) {
	u, err := l.grpcURL()
	if err != nil {
		return "", err
	}
	http, err := l.config.url()
	switch {
	case err != nil:
		return "", err
	case u.Scheme == "unix":
		return "unix://" + u.Path, nil
	case http.Scheme == "https":
		return "https://" + u.Host, nil
	}
	return u.Host, nil
}
