package connect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/client/hooks/secrets"
	"berth/consul"
	"berth/consul/mesh"
	"berth/internal/backoff"
	"berth/structs"
)

// The attempts to build the configuration, as in the dialect: Consul may not have the service yet.
const (
	attempts = 3
	between  = 2 * time.Second
)

// The addresses of Envoy's own listeners, as in the dialect: the index of the task in its group is added to
// the port.
const (
	adminIP   = "127.0.0.2"
	adminPort = 19000
	readyIP   = "127.0.0.1"
	readyPort = 19100
)

// EnvoyConsul is the part of consul.Link that the hook needs.
type EnvoyConsul interface {
	Command() (*consul.Command, error)
	GRPCAddress() (string, error)
}

// EnvoyConfig has the parts of the agent that the hook needs.
type EnvoyConfig struct {
	Consul EnvoyConsul
	Logger hclog.Logger
	// Progress receives the reason for which an allocation waits, "" once it no longer waits.
	Progress func(allocID, reason string)
}

type envoy struct {
	cfg    EnvoyConfig
	logger hclog.Logger
}

// NewEnvoy makes the configuration with which Envoy starts as a proxy in the service mesh: the program
// consul builds it from the registration of the proxy in Consul. It holds the token of the task, so it is
// one of the task's secrets.
//
// The token goes to the program by its environment (ADR 46): other users of the machine see arguments.
//
// The hook is nil for a task that is no proxy.
func NewEnvoy(cfg EnvoyConfig, env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	if !task.Kind.IsProxy() {
		return nil
	}
	return &envoy{
		cfg:    cfg,
		logger: cfg.Logger.With("alloc_id", env.Alloc.ID, "task", task.Name),
	}
}

// Name implements hook.Task.
func (*envoy) Name() string { return "envoy_bootstrap" }

// Up writes the configuration. A proxy that is built into Consul needs none.
func (h *envoy) Up(ctx context.Context, env *hooks.TaskEnv) error {
	if env.Running || isBuiltIn(env) {
		return nil
	}

	p, err := h.plan(env)
	if err == nil {
		err = h.bootstrap(ctx, p, env)
	}
	if err != nil {
		// The file of an earlier start must not stand for this one.
		err = fmt.Errorf("making the configuration of Envoy: %w", err)
		return errors.Join(err, secrets.Remove(env.Config.Dirs, driver.EnvoyBootstrapFile))
	}

	for _, prefix := range []string{"BERTH_", "NOMAD_"} {
		env.Config.Env[prefix+"ENVOY_ADMIN_ADDR_"+structs.VariableName(p.service)] = p.admin
		env.Config.Env[prefix+"ENVOY_READY_ADDR_"+structs.VariableName(p.service)] = p.ready
	}
	return nil
}

// Down has nothing to undo: the secrets end with the allocation.
func (*envoy) Down(context.Context) error { return nil }

// isBuiltIn reports whether the node runs the proxy of the program consul.
func isBuiltIn(env *hooks.TaskEnv) bool {
	// The fingerprint of the driver names the proxy that the node has.
	kind := env.Node().Attributes["driver."+mesh.ProxyDriver+".proxy"]
	return env.Task.Driver == mesh.ProxyDriver && kind != mesh.ProxyEnvoy
}

// plan has the texts of a call of the program consul.
type plan struct {
	service   string // its name
	serviceID string // in Consul
	gateway   string // ingress, terminating, mesh; "" for a sidecar
	grpc      string // the address of Consul as Envoy sees it
	admin     string // host:port
	ready     string // host:port
	token     string // "": Consul asks for none
}

// gateways are the words for the kinds of gateways in the program consul.
var gateways = map[string]string{
	structs.KindConnectIngress:     "ingress",
	structs.KindConnectTerminating: "terminating",
	structs.KindConnectMesh:        "mesh",
}

// plan collects the texts of the call for the proxy of a task.
func (h *envoy) plan(env *hooks.TaskEnv) (*plan, error) {
	s := serviceOf(env)
	if s == nil {
		return nil, structs.Invalidf("task %q is the proxy of a service %q, which its group does not have",
			env.Task.Name, env.Task.Kind.Service())
	}

	p := &plan{
		service:   s.Name,
		serviceID: consul.TaskServiceID(s.InstanceID(env.Alloc.ID, "")),
		gateway:   gateways[env.Task.Kind.Kind()],
		grpc:      "unix://" + path.Join(env.Seen.AllocShared, mesh.GRPCSocket),
	}

	err := p.addAddresses(env, s)
	if err != nil {
		return nil, err
	}

	// In the network of the node Envoy connects to Consul itself.
	if !env.Group.Network().Isolated() {
		p.grpc, err = h.cfg.Consul.GRPCAddress()
		if err != nil {
			return nil, err
		}
	}

	p.token, err = ReadToken(env.Config.Dirs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		// Another start would find the same file.
		return nil, &hooks.Failure{Event: structs.TaskEventSetupFailure, Final: true, Err: err}
	}

	return p, nil
}

// serviceOf returns the service of the group that the task is the proxy of, nil if there is none.
func serviceOf(env *hooks.TaskEnv) *structs.Service {
	i := slices.IndexFunc(env.Group.Services, func(s *structs.Service) bool {
		return s != nil && s.Connect != nil && s.Name == env.Task.Kind.Service()
	})
	if i < 0 {
		return nil
	}
	return env.Group.Services[i]
}

// addAddresses chooses the addresses of Envoy's own listeners. In a network of the allocation's own, the
// tasks differ by their index. In the node's network, the port of the service is the allocation's alone.
func (p *plan) addAddresses(env *hooks.TaskEnv, s *structs.Service) error {
	index := slices.IndexFunc(env.Group.Tasks, func(t *structs.Task) bool { return t.Name == env.Task.Name })
	admin := adminPort + max(index, 0)
	ready := readyPort + max(index, 0)
	if !env.Group.Network().Isolated() {
		port, err := portOf(env.Alloc, env.Expand(s.PortLabel))
		if err != nil {
			return err
		}
		// The IPs differ, so both may have one port.
		admin = port
		ready = port
	}

	p.admin = net.JoinHostPort(adminIP, strconv.Itoa(admin))
	p.ready = net.JoinHostPort(readyIP, strconv.Itoa(ready))
	return nil
}

// portOf returns the port of the node for a label or a number.
func portOf(alloc *structs.Allocation, label string) (int, error) {
	if p := structs.FindPort(alloc.Ports, label); p != nil {
		return p.Value, nil
	}
	return structs.PortNumber(label)
}

// args returns the arguments of the program consul. No secret is among them.
func (p *plan) args(connection []string) []string {
	args := []string{"connect", "envoy",
		"-bootstrap",
		"-grpc-addr", p.grpc,
		"-admin-bind", p.admin,
		"-address", p.ready,
	}
	args = append(args, connection...)
	if p.gateway != "" {
		return append(args, "-gateway", p.gateway, "-proxy-id", p.serviceID)
	}
	return append(args, "-sidecar-for", p.serviceID)
}

// environ returns the environment of the program, with the token if there is one.
func (p *plan) environ(connection []string) []string {
	env := slices.Clone(connection)
	if p.token != "" {
		env = append(env, "CONSUL_HTTP_TOKEN="+p.token)
	}
	return env
}

// bootstrap runs the program until it has built the configuration, and writes that. A program that cannot
// start fails the task for good.
func (h *envoy) bootstrap(ctx context.Context, p *plan, env *hooks.TaskEnv) error {
	command, err := h.cfg.Consul.Command()
	if err != nil {
		return &hooks.Failure{Event: structs.TaskEventSetupFailure, Final: true, Err: err}
	}

	command.Args = p.args(command.Args)
	command.Env = p.environ(command.Env)
	wait := hooks.Wait{
		AllocID:  env.Alloc.ID,
		Task:     env.Task.Name,
		For:      "its configuration of Envoy",
		Progress: h.cfg.Progress,
		Emit:     env.Emit,
	}

	wait.Begin()
	text, err := h.runRepeatedly(ctx, p, command, wait.Tell)
	wait.End()
	if err != nil {
		return err
	}

	// The file has the token, so it is a secret, too.
	return secrets.Write(env.Config.Dirs, driver.EnvoyBootstrapFile, text)
}

// runRepeatedly runs the program for a plan until it succeeds. tell takes the reason of each repetition.
func (h *envoy) runRepeatedly(
	ctx context.Context, p *plan, command *consul.Command, tell func(reason string),
) (string, error) {
	for n := 1; ; n++ {
		text, err := run(ctx, command)
		err = p.withoutToken(err)
		// The program has not started, and would not start the next time.
		_, never := errors.AsType[*hooks.Failure](err)
		if err == nil || never || n == attempts {
			return text, err
		}

		if ctx.Err() != nil {
			return "", ctx.Err()
		}

		h.logger.Warn("failed to make the configuration of Envoy, retrying", "error", err)
		tell(err.Error())
		if !backoff.Sleep(ctx, between) {
			return "", ctx.Err()
		}
	}
}

// withoutToken returns an error of the program, or another one if that has the token in its message.
func (p *plan) withoutToken(err error) error {
	if err != nil && p.token != "" && strings.Contains(err.Error(), p.token) {
		return structs.Unavailablef("the program consul failed, and its message has the token")
	}
	return err
}
