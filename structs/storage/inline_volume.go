package storage

import (
	"slices"

	"berth/structs"
)

// InlinePodPrefix begins the keys of the volume context that drivers for Kubernetes expect of an inline
// volume. The node sets them.
const InlinePodPrefix = "csi.storage.k8s.io/"

// InlinePlugins returns the IDs of the plugins that make inline volumes of a group, each once and sorted.
func InlinePlugins(g *structs.TaskGroup) (ids []string) {
	for _, r := range g.Volumes {
		if r.IsInline() {
			ids = append(ids, r.PluginID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
