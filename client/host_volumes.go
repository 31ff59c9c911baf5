package client

import (
	"os"

	"berth/structs"
)

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
func (c *Client) warnOfHostVolumes() {
	for _, v := range c.config().HostVolumes {
		if !isDir(v.Path) {
			c.logger.Warn("host volume has no directory, not offering it; make the directory, then send SIGHUP",
				"host_volume", v.Name, "path", v.Path)
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
