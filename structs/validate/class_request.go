package validate

import (
	"strings"

	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate/field"
)

// checkClassRequest checks the class and the size of a canonical request. source is the Source of its block
// with a class.
func checkClassRequest(f field.Errors, v *structs.VolumeRequest, source string) {
	f.CheckOneOf("lifecycle", v.Lifecycle, []string{"", structs.LifecycleAlloc, structs.LifecycleInline})
	f.Require(v.Lifecycle == "" || !v.PerAlloc,
		"per_alloc is not allowed with lifecycle: each allocation has a volume of its own already; leave it out")
	if v.Source != source && (v.Class != "" || v.IsInline()) {
		f.Addf("source %q is not allowed with class or lifecycle \"inline\": the volume has the name %q; leave source out", v.Source, source)
	}
	if v.IsInline() {
		checkInline(f, v)
		return
	}

	f.Require(v.PluginID == "" && len(v.Parameters) == 0,
		"plugin_id and parameters need lifecycle = \"inline\"; another volume has those of its class or its file")
	if v.Class == "" {
		f.Require(v.Lifecycle == "", "lifecycle needs a class, of which each allocation gets a volume")
		f.Require(v.Size == 0, "size needs a class: a volume that exists has its size")
		return
	}

	f.CheckName("class", v.Class)
	f.Require(v.Size > 0, "size is required with class, for example size = \"10GiB\"")
	f.Require(v.Size <= structs.MaxVolumeBytes, "size %s is above the largest size of a volume, %s",
		structs.FormatBytes(v.Size), structs.FormatBytes(structs.MaxVolumeBytes))
}

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
		f.Require(!strings.HasPrefix(strings.ToLower(key), storage.InlinePodPrefix),
			"parameters: key %q is not allowed: the node sets the keys that begin with %q",
			key, storage.InlinePodPrefix)
	}
	f.Require(bytes <= maxInlineParameters,
		`parameters has %d bytes; with lifecycle "inline" at most %d are allowed`, bytes, maxInlineParameters)
}
