package docker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/api/types/container"

	"berth/client/drivers/docker/hostconfig"
	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/structs"
)

// hostFiles are the files of hosts of tasks in the networks of their groups, in a directory.
type hostFiles struct{ dir string }

// joinNetwork makes a container join the network of the task's allocation. Settings that the daemon keeps
// with a network come from the joined container.
func (f hostFiles) joinNetwork(
	h *container.HostConfig, cfg *driver.TaskConfig, want *taskconfig.Task, joined string,
) error {
	err := checkOwnNetwork(want)
	if err != nil {
		return err
	}

	h.NetworkMode = container.NetworkMode("container:" + joined)

	// The daemon rejects these settings beside the network of another container.
	h.DNS = nil
	h.DNSSearch = nil
	h.DNSOptions = nil
	h.ExtraHosts = nil
	hosts, err := f.of(cfg, want)
	if err != nil {
		return err
	}

	for _, file := range []struct{ source, target string }{
		{hosts, "/etc/hosts"},
		{cfg.Network.Resolver, "/etc/resolv.conf"},
	} {
		if file.source == "" {
			continue
		}

		m := hostconfig.Bind(file.source, file.target, "")
		// All tasks of the allocation have these files.
		m.ReadOnly = true
		h.Mounts = append(h.Mounts, m)
	}

	return hostconfig.CheckTargets(h)
}

// checkOwnNetwork rejects the settings of a network of its own. The container would get the settings of the
// group's network instead, and nothing would say so.
func checkOwnNetwork(want *taskconfig.Task) error {
	for _, s := range []struct {
		field string
		set   bool
		other string
	}{
		{"hostname", want.Hostname != "", "hostname"},
		{"dns_servers", len(want.DNSServers) > 0, "dns { servers }"},
		{"dns_search_domains", len(want.DNSSearch) > 0, "dns { searches }"},
		{"dns_options", len(want.DNSOptions) > 0, "dns { options }"},
	} {
		if s.set {
			return structs.Invalidf("config.%s: the task is in the network of its group; "+
				"write %s in the group's network", s.field, s.other)
		}
	}
	return nil
}

// of returns the file for /etc/hosts: the allocation's, or one with the hosts of the task, too.
func (f hostFiles) of(cfg *driver.TaskConfig, want *taskconfig.Task) (string, error) {
	if len(want.ExtraHosts) == 0 {
		return cfg.Network.Hosts, nil
	}

	text, err := os.ReadFile(cfg.Network.Hosts)
	if err != nil {
		return "", err
	}

	for _, host := range want.ExtraHosts {
		name, address, _ := strings.Cut(host, ":")
		if address == hostGateway {
			return "", structs.Invalidf("config.extra_hosts: %q: only the daemon knows the address %s, and "+
				"the task is in the network of its group", structs.Cut(host, structs.MaxQuoted), hostGateway)
		}

		text = append(text, address+" "+name+"\n"...)
	}

	path := f.path(cfg.ID)
	// Any user of the container may read the file. The directory keeps others on the machine out.
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}

	return path, err
}

// hostGateway is the address of extra_hosts that the daemon replaces.
const hostGateway = "host-gateway"

func (f hostFiles) path(taskID string) string {
	return filepath.Join(f.dir, containerName(taskID))
}

// forget removes the file of hosts of a task, if it has one.
func (f hostFiles) forget(taskID string) error {
	err := os.Remove(f.path(taskID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
