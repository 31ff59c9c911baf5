package docker

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/structs"
)

// protocols are those for which a port is published: a job does not name one.
var protocols = []network.IPProtocol{network.TCP, network.UDP}

// addPorts publishes the ports that the task names at their addresses of the node. A container in the network
// of the node has them already.
func addPorts(
	c *container.Config, h *container.HostConfig, cfg *driver.TaskConfig, want *taskconfig.Task,
) error {
	var labels []string
	for _, p := range cfg.Ports {
		labels = append(labels, p.Label)
	}

	err := want.CheckPorts(labels)
	// Each of these has no port of its own to publish, or the network of the group has it.
	if err != nil || h.NetworkMode.IsHost() || len(want.Ports) == 0 || joins(cfg, want) {
		return err // the ports of the allocation's network lead into it
	}

	if cfg.NamespaceOf() != "" {
		return structs.Invalidf("config.ports: the ports lead into the network of the group, and "+
			"config.network_mode %q names another one; remove one of the two", h.NetworkMode)
	}

	if mode := string(h.NetworkMode); mode == "none" || strings.HasPrefix(mode, "container:") {
		return structs.Invalidf("config.ports: a container with network_mode %q has no ports of its own",
			mode)
	}

	c.ExposedPorts = network.PortSet{}
	h.PortBindings = network.PortMap{}
	for _, given := range cfg.Ports {
		if !want.HasPort(given.Label) {
			continue
		}

		host, err := netip.ParseAddr(given.HostIP)
		if err != nil {
			return structs.Internalf("port %s: %w", given.Label, err)
		}

		for _, protocol := range protocols {
			inside, _ := network.PortFrom(uint16(given.Inside()), protocol)
			c.ExposedPorts[inside] = struct{}{}
			h.PortBindings[inside] = append(h.PortBindings[inside], network.PortBinding{
				HostIP:   host,
				HostPort: strconv.Itoa(given.Value),
			})
		}
	}

	return nil
}
