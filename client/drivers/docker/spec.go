package docker

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"berth/client/drivers/docker/engine"
	"berth/client/drivers/docker/hostconfig"
	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/structs"
)

// containers describes the containers of tasks.
type containers struct {
	cfg     taskconfig.Settings
	options *Options
	hosts   hostFiles
}

// containerOf describes the container of a task. joined is the container whose network it joins, "" for none.
func (c *containers) containerOf(
	cfg *driver.TaskConfig, want *taskconfig.Task, image *engine.Image, joined string,
) (client.ContainerCreateOptions, error) {
	var options client.ContainerCreateOptions
	labels, err := c.labelsOf(cfg, want.Labels, image.Labels)
	if err != nil {
		return options, err
	}

	host, err := c.hostConfigOf(cfg, want)
	if err == nil && joined != "" {
		err = c.hosts.joinNetwork(host, cfg, want, joined)
	}
	if err != nil {
		return options, err
	}

	options.Name = containerName(cfg.ID)
	options.HostConfig = host
	options.Config = &container.Config{
		Image:      image.ID,
		Hostname:   want.Hostname,
		User:       cfg.User,
		Env:        environ(cfg.Env),
		Entrypoint: want.Entrypoint,
		Cmd:        commandOf(want),
		WorkingDir: want.WorkDir,
		OpenStdin:  want.Interactive,
		Tty:        want.TTY,
		Labels:     labels,
		// The daemon checks a signal only here. With one that it does not know, the task would get none.
		StopSignal: image.StopSignal,
	}

	options.Config.Healthcheck = healthOf(want.Health)
	if cfg.Privileged && len(want.Health.Test) == 0 {
		// The agent asks a CSI plugin for its health. A check of the image would run with all privileges.
		options.Config.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
	}

	return options, addPorts(options.Config, host, cfg, want)
}

func environ(env map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// commandOf returns the arguments of the image's entry point, nil for the image's own.
func commandOf(want *taskconfig.Task) []string {
	if want.Command == "" {
		return want.Args
	}
	return append([]string{want.Command}, want.Args...)
}

// healthOf describes the check of the job. A test that names no form is a command without a shell.
func healthOf(h taskconfig.Health) *container.HealthConfig {
	if h.Disable {
		return &container.HealthConfig{Test: []string{"NONE"}}
	}
	c := &container.HealthConfig{
		Test:        h.Test,
		Interval:    h.Interval,
		Timeout:     h.Timeout,
		StartPeriod: h.StartPeriod,
		Retries:     h.Retries,
	}
	if len(h.Test) > 0 && !slices.Contains([]string{"CMD", "CMD-SHELL", "NONE"}, h.Test[0]) {
		c.Test = append([]string{"CMD"}, h.Test...)
	}
	return c
}

// dnsOf returns the settings of the task, and its group's where it has none.
func dnsOf(cfg *driver.TaskConfig, want *taskconfig.Task) structs.DNSConfig {
	dns := structs.DNSConfig{
		Servers:  want.DNSServers,
		Searches: want.DNSSearch,
		Options:  want.DNSOptions,
	}
	if cfg.Network != nil && cfg.Network.DNS != nil {
		dns.Fill(cfg.Network.DNS)
	}
	return dns
}

func (c *containers) hostConfigOf(
	cfg *driver.TaskConfig, want *taskconfig.Task,
) (*container.HostConfig, error) {
	dns := dnsOf(cfg, want)
	h := &container.HostConfig{
		LogConfig:      logConfigOf(cfg, want.Logging),
		NetworkMode:    container.NetworkMode(want.NetworkMode),
		DNSOptions:     dns.Options,
		DNSSearch:      dns.Searches,
		ExtraHosts:     want.ExtraHosts,
		GroupAdd:       want.GroupAdd,
		IpcMode:        container.IpcMode(want.IPCMode),
		PidMode:        container.PidMode(want.PIDMode),
		UTSMode:        container.UTSMode(want.UTSMode),
		UsernsMode:     container.UsernsMode(want.UsernsMode),
		OomScoreAdj:    want.OOMScoreAdj,
		Runtime:        want.Runtime,
		ReadonlyRootfs: want.ReadonlyRootfs,
		StorageOpt:     want.StorageOpt,
		Tmpfs:          want.Tmpfs,
		ShmSize:        want.ShmSize,
		Sysctls:        want.Sysctl,
	}

	// Nil leaves it to the setting of the daemon, which false would overrule.
	if want.Init {
		h.Init = &want.Init
	}
	for _, s := range dns.Servers {
		address, err := netip.ParseAddr(s)
		if err != nil {
			return nil, structs.Invalidf("config.dns_servers: %w", err)
		}
		h.DNS = append(h.DNS, address)
	}

	return h, c.restrict(h, cfg, want)
}

// restrict adds the limits, the mounts and the privileges.
func (c *containers) restrict(h *container.HostConfig, cfg *driver.TaskConfig, want *taskconfig.Task) error {
	err := hostconfig.AddLimits(h, cfg, want, hostconfig.NodeLimits{PIDs: c.cfg.PIDsLimit, MHz: c.options.MHz})
	if err == nil {
		err = hostconfig.AddMounts(h, cfg, want)
	}
	if err == nil {
		err = hostconfig.AddSecurity(h, cfg, want)
	}
	if err != nil {
		return err
	}

	if !cfg.Privileged && !want.Privileged {
		hostconfig.Confine(c.cfg, h, want)
		return nil
	}

	missing, err := hostconfig.MissingCapabilities()
	if err != nil {
		return err
	}

	hostconfig.Grant(h, missing)
	return nil
}
