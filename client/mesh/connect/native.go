package connect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/client/hooks/secrets"
	"berth/consul"
	"berth/consul/mesh"
	"berth/structs"
)

// NativeConsul is the part of consul.Link that the hook needs.
type NativeConsul interface {
	Access() (*consul.Access, error)
}

type native struct{ consul NativeConsul }

// NewNative tells a task that takes part in the service mesh by itself how to reach the Consul of its node:
// it gives the task the variables that the libraries of Consul read.
//
// In a network namespace the agent's socket leads there, and the agent adds TLS. In the network of the node
// the task connects itself, with the certificates of Consul's authority. The agent's own token, password and
// key are not for tasks.
//
// The hook is nil for a task that does not take part in the service mesh by itself.
func NewNative(c NativeConsul, task *structs.Task) hooks.Task {
	if task.Kind.Kind() != structs.KindConnectNative {
		return nil
	}
	return native{c}
}

// Name implements hook.Task.
func (native) Name() string { return "connect_native" }

// Up adds the variables. Those that the task sets itself win.
func (h native) Up(_ context.Context, env *hooks.TaskEnv) error {
	if env.Running {
		return nil
	}

	vars := map[string]string{}
	err := h.addAccess(vars, env)
	if err != nil {
		return fmt.Errorf("leading the task to Consul: %w", err)
	}

	err = addToken(vars, env)
	if err != nil {
		return err
	}

	for name, value := range vars {
		if _, own := env.Config.Env[name]; !own {
			env.Config.Env[name] = value
		}
	}

	return nil
}

// Down has nothing to undo: the secrets end with the allocation.
func (native) Down(context.Context) error { return nil }

// addAccess adds the address of Consul and the settings for TLS.
func (h native) addAccess(vars map[string]string, env *hooks.TaskEnv) error {
	if env.Group.Network().Isolated() {
		vars["CONSUL_HTTP_ADDR"] = "unix://" + filepath.Join(env.Seen.AllocShared, mesh.HTTPSocket)
		// The agent adds TLS behind the socket.
		vars["CONSUL_HTTP_SSL"] = strconv.FormatBool(false)
		return nil
	}

	a, err := h.consul.Access()
	if err != nil {
		return err
	}

	vars["CONSUL_HTTP_ADDR"] = a.Address
	vars["CONSUL_HTTP_SSL"] = strconv.FormatBool(a.SSL)
	if a.SSL {
		vars["CONSUL_HTTP_SSL_VERIFY"] = strconv.FormatBool(a.VerifySSL)
	}

	if a.CA == "" {
		return nil
	}

	vars["CONSUL_CACERT"] = filepath.Join(env.Seen.Secrets, driver.ConsulCAFile)
	return secrets.Write(env.Config.Dirs, driver.ConsulCAFile, a.CA)
}

// addToken adds the token of the task if it has one. A file that is no token fails the task for good.
func addToken(vars map[string]string, env *hooks.TaskEnv) error {
	secret, err := ReadToken(env.Config.Dirs)
	switch {
	case err == nil:
		vars["CONSUL_HTTP_TOKEN"] = secret
	case !errors.Is(err, fs.ErrNotExist):
		return &hooks.Failure{
			Event: structs.TaskEventSetupFailure,
			Final: true,
			Err:   err,
		}
	}
	return nil
}
