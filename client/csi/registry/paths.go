package registry

import (
	"path/filepath"
	"strings"

	"berth/structs"
)

// maxPath is the longest path that every plugin has to accept (CSI spec, "Size Limits").
const maxPath = 128

// PathInPlugin translates a path on the host into the scope of a plugin.
func PathInPlugin(reg *Instance, host string) (string, error) {
	below, ok := strings.CutPrefix(host, strings.TrimSuffix(reg.HostMountPath, "/")+"/")
	if !ok || reg.PluginMountPath == "" {
		return "", structs.Preconditionf("plugin %q: %s is outside the paths of the plugin (%q as %q)",
			reg.ID, host, reg.HostMountPath, reg.PluginMountPath)
	}

	path := filepath.Join(reg.PluginMountPath, below)
	if len(path) > maxPath {
		return "", structs.Invalidf(
			"plugin %q: the path %s is %d bytes long, plugins need not take more than %d: shorten "+
				"stage_publish_base_dir",
			reg.ID, path, len(path), maxPath)
	}
	return path, nil
}
