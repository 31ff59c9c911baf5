// Package connectproxy is the task driver of the proxies of Consul's service mesh. It starts Envoy where the
// node has it, and otherwise the proxy that is built into Consul's own program. A proxy runs like a task of
// the driver exec: in a private root with the network of its allocation, with a supervisor that outlives the
// agent.
//
// Envoy reads its configuration from secrets/envoy_bootstrap.json and gets the rest from Consul. The built-in
// proxy gets its work by arguments: it would listen at the address of its registration, which is the node's
// and not one of the network of the allocation (ADR 42). It has its certificates from Consul, through the
// socket of the allocation, with the token in secrets/si_token if there is one.
package connectproxy

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"berth/client/drivers/driver"
	"berth/client/drivers/exec"
	"berth/client/drivers/executor"
	"berth/consul/mesh"
	"berth/structs"
)

// Name is the driver's name in jobs.
const Name = mesh.ProxyDriver

// Config names the programs.
type Config struct {
	// Consul says that the node uses Consul: without it, no proxy can work.
	Consul bool
	// ConsulPath and EnvoyPath are programs; "" looks for consul and envoy in the PATH of the agent.
	ConsulPath, EnvoyPath string
}

// Driver implements driver.Driver and driver.Execer.
type Driver struct {
	*exec.Driver
	cfg Config

	mu       sync.Mutex         // held while a program is asked for its version
	versions map[program]string // has one entry: see version
}

// New makes the driver. The settings of exec apply to the roots and limits of proxies.
func New(cfg Config, ex exec.Config, run executor.Config) *Driver {
	return &Driver{
		Driver:   exec.NewNamed(Name, ex, run),
		cfg:      cfg,
		versions: map[program]string{},
	}
}

// Fingerprint implements driver.Driver. attr.driver.connect.proxy names the proxy: envoy or consul.
func (d *Driver) Fingerprint(ctx context.Context) *structs.DriverInfo {
	none := func(why string) *structs.DriverInfo {
		return &structs.DriverInfo{UpdateTime: time.Now(), HealthDescription: why}
	}
	if !d.cfg.Consul {
		return none("the node uses no Consul (consul.address)")
	}

	p, err := d.findProgram()
	if err != nil {
		return none(err.Error())
	}

	info := d.Driver.Fingerprint(ctx)
	if !info.Healthy {
		return info
	}

	version, err := d.version(ctx, p)
	if err != nil {
		info.Healthy = false
		info.HealthDescription = err.Error()
		return info
	}

	info.Attributes["driver."+Name+".proxy"] = p.kind
	info.Attributes["driver."+Name+".version"] = version
	return info
}

// Validate implements driver.Driver. The driver has no settings: a proxy's settings are in the job's connect
// block.
func (d *Driver) Validate(config map[string]any) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(config)) {
		faults = append(faults, structs.Invalidf("config.%s: the driver %s takes no config: the settings "+
			"of a proxy are in sidecar_service.proxy and gateway.proxy",
			structs.Cut(name, structs.MaxQuoted), Name))
	}
	return structs.InvalidAll(faults)
}

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (*driver.Handle, error) {
	if cfg.Proxy == nil {
		return nil, structs.Invalidf("task %q is no proxy of the service mesh; expected another driver",
			cfg.Task)
	}

	p, err := d.findProgram()
	if err != nil {
		return nil, structs.Preconditionf("%w", err)
	}

	args, err := p.args(cfg)
	if err != nil {
		return nil, err
	}

	// The root of a task may not have the program, or at another path, so it is mounted.
	inside := exec.ProgramPath(filepath.Base(p.path))
	// The caller keeps its cfg, and may use it for another start.
	started := *cfg
	started.Config = map[string]any{"command": inside, "args": args}
	started.Mounts = append(slices.Clone(cfg.Mounts), driver.Mount{
		HostPath: p.path,
		TaskPath: inside,
		ReadOnly: true,
	})

	return d.Driver.Start(ctx, &started)
}

// args returns the arguments of the proxy.
func (p program) args(cfg *driver.TaskConfig) ([]any, error) {
	if p.kind == KindEnvoy {
		return []any{
			"-c", filepath.Join(driver.Inside.Secrets, driver.EnvoyBootstrapFile),
			"-l", "info",
			"--concurrency", "1",
			// Each start is a new process: no older one hands its sockets over.
			"--disable-hot-restart",
		}, nil
	}

	err := p.checkWork(cfg)
	if err != nil {
		return nil, err
	}

	work := cfg.Proxy
	args := []any{
		"connect", "proxy",
		"-http-addr", "unix://" + filepath.Join(driver.Inside.AllocShared, mesh.HTTPSocket),
		"-service", work.Service,
		"-service-addr", work.Local,
		"-listen", work.Listen,
	}

	for _, u := range work.Upstreams {
		name := u.Name
		if u.Query {
			name += ".query"
		}

		args = append(args, "-upstream", name+":"+u.Bind)
	}

	// A Consul without ACLs needs no token, and the allocation has none then.
	_, err = os.Lstat(filepath.Join(cfg.Dirs.Secrets, driver.SITokenFile))
	switch {
	case err == nil:
		args = append(args, "-token-file", filepath.Join(driver.Inside.Secrets, driver.SITokenFile))
	case !os.IsNotExist(err):
		return nil, structs.Preconditionf("looking for the token of Consul: %w", err)
	}

	return args, nil
}

// checkWork rejects what the proxy of Consul cannot do. A node with Envoy would run it.
func (p program) checkWork(cfg *driver.TaskConfig) error {
	work := cfg.Proxy
	switch {
	case work.Gateway:
		return structs.Invalidf("gateways need Envoy, and this node has the proxy of Consul alone "+
			"(%s): install envoy, or set consul.envoy_path", p.path)
	case work.EnvoyOnly != "":
		return structs.Invalidf("%s needs Envoy, and this node has the proxy of Consul alone "+
			"(%s): install envoy, or set consul.envoy_path", work.EnvoyOnly, p.path)
	case cfg.NamespaceOf() == "":
		return structs.Invalidf("the proxy of Consul needs a network of the allocation's own: " +
			"expected the network mode bridge or cni")
	}
	return nil
}
