package jobvolume

import (
	"berth/structs"
	"berth/structs/validate/field"
)

// Check checks the class and the size of a canonical request. source is the Source of its block with a class.
func Check(f field.Errors, v *structs.VolumeRequest, source string) {
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
