package jobvolume

import (
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// PodPrefix begins the keys of the volume context that drivers for Kubernetes expect of an inline volume. The
// node sets them.
const PodPrefix = "csi.storage.k8s.io/"

// maxInlineParameters is the most bytes of the parameters of an inline volume. With the keys of PodPrefix and
// their values they are within structs.MaxCSIMap.
const maxInlineParameters = 5 << 9

// checkInline checks a request for a volume that the plugin makes when the node publishes it.
func checkInline(f field.Errors, v *structs.VolumeRequest) {
	f.CheckPluginID("plugin_id", v.PluginID)
	f.Require(v.Class == "" && v.Size == 0, `class and size are not allowed with lifecycle "inline": the `+
		`plugin makes the volume from parameters; use lifecycle "alloc" for a volume of a class`)
	f.Require(v.AccessMode == structs.CSISingleNodeWriter && v.AttachmentMode == structs.CSIFileSystem,
		`access_mode %q and attachment_mode %q are not allowed with lifecycle "inline", only %q and %q; `+
			`leave them out`,
		v.AccessMode, v.AttachmentMode, structs.CSISingleNodeWriter, structs.CSIFileSystem)
	f.Require(v.Ownership == nil && v.OnDeadMount == "",
		`ownership and on_dead_mount are not allowed with lifecycle "inline"; use lifecycle "alloc" for them`)

	f.CheckCSIMap("parameters", v.Parameters)
	bytes := 0
	for key, value := range v.Parameters {
		bytes += len(key) + len(value)
		// Drivers compare keys without regard to case.
		f.Require(!strings.HasPrefix(strings.ToLower(key), PodPrefix), "parameters: key %q is not allowed: the "+
			"node sets the keys that begin with %q", key, PodPrefix)
	}
	f.Require(bytes <= maxInlineParameters,
		`parameters has %d bytes; with lifecycle "inline" at most %d are allowed`, bytes, maxInlineParameters)
}

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
