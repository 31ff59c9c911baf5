package client

import (
	"context"
	"maps"
	"os"
	"time"

	"berth/client/machine"
	"berth/client/machine/cni"
	"berth/structs"
)

// readNetworks finds the host networks of this machine, once: jobs have their addresses.
func (reg *registration) readNetworks() error {
	cfg := reg.config()
	found, err := machine.ReadNetworks(machine.NetworkConfig{
		Interface: cfg.NetworkInterface,
		Networks:  cfg.HostNetworks,
		Exclude:   cfg.BridgeName,
	})
	if err != nil {
		return err
	}

	reg.networks = found.Links
	reg.findModes()
	for _, name := range found.Missing {
		reg.logger.Warn("host network has no address on this machine", "host_network", name)
	}

	if found.LeftOut > 0 {
		reg.logger.Warn("too many addresses in host networks, leaving out some", "left_out", found.LeftOut)
	}

	return nil
}

// findTimeout bounds the look for the plugins of networks.
const findTimeout = 20 * time.Second

// findModes finds the networks of allocations that this node has, once.
func (reg *registration) findModes() {
	ctx, cancel := context.WithTimeout(context.Background(), findTimeout)
	defer cancel()
	cfg := reg.config()
	found := cni.New(cfg.Settings, cfg.NetworkDir()).Find(ctx)
	free := structs.MaxNodeAddresses - len(reg.networks)
	reg.networks = append(reg.networks, found.Modes[:min(len(found.Modes), free)]...)
	maps.Copy(reg.facts.Attributes, found.Attributes)
	if found.NoBridge != nil {
		reg.logger.Info("no network with mode bridge on this node", "reason", found.NoBridge)
	}
	for _, err := range found.Faults {
		reg.logger.Warn("leaving out a network", "error", err)
	}
}

// setPorts adds the networks and ports of the node to its row.
func setPorts(n *structs.Node, cfg *Config, networks []*structs.NodeNetworkResource) {
	n.NodeResources.NodeNetworks = networks
	n.NodeResources.MinDynamicPort = cfg.MinDynamicPort
	n.NodeResources.MaxDynamicPort = cfg.MaxDynamicPort
	if ports := cfg.ReservedPorts(); ports != "" {
		n.ReservedResources.Networks = &structs.NodeReservedNetworks{ReservedHostPorts: ports}
	}
}

// offeredVolumes returns the host volumes of the configuration whose directories are there, nil if there is
// none. The servers place no job on a node that lacks one of its volumes.
func offeredVolumes(cfg *Config) map[string]*structs.HostVolume {
	var volumes map[string]*structs.HostVolume
	for _, v := range cfg.HostVolumes {
		if !isDir(v.Path) {
			continue
		}
		if volumes == nil {
			volumes = map[string]*structs.HostVolume{}
		}
		volumes[v.Name] = &structs.HostVolume{
			Path:     v.Path,
			ReadOnly: v.ReadOnly,
		}
	}
	return volumes
}

// warnOfHostVolumes names the host volumes that the node does not offer.
func (reg *registration) warnOfHostVolumes() {
	for _, v := range reg.config().HostVolumes {
		if !isDir(v.Path) {
			reg.logger.Warn("host volume has no directory, not offering it; make the directory, then send SIGHUP",
				"host_volume", v.Name, "path", v.Path)
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
