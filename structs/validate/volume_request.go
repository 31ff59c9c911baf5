package validate

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate/field"
)

// checkVolumes checks the volumes of a group by their names. Two requests for one CSI volume would be two
// claims of one allocation, and a claim has one class.
func checkVolumes(f field.Errors, g *structs.TaskGroup, j *structs.Job) {
	if f.AtMost("volumes", len(g.Volumes), structs.MaxVolumes) < len(g.Volumes) {
		return
	}

	aliases := map[string]string{} // type and source -> alias
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[alias]
		if v == nil {
			f.Addf("volume %q is null", alias)
			continue
		}

		f.CheckName("volume: name", alias)
		checkVolumeRequest(f.At("volume %q", alias), v, j, g)
		if v.Type == structs.VolumeTypeHost {
			checkHostAliases(f, g, alias, v)
			continue
		}

		checkClassRequest(f.At("volume %q", alias), v, storage.RequestSource(j.ID, g.Name, alias))
		volume := v.Type + "\x00" + v.Source
		f.Require(aliases[volume] == "",
			"volume %q: source %q is that of volume %q too; mount one volume in several places instead",
			alias,
			v.Source, aliases[volume])
		aliases[volume] = alias
	}
}

// checkHostAliases rejects two requests for one host volume of which one excludes the other. Others share it,
// for example one that writes and one that only reads.
func checkHostAliases(f field.Errors, g *structs.TaskGroup, alias string, v *structs.VolumeRequest) {
	for _, former := range slices.Sorted(maps.Keys(g.Volumes)) {
		if former == alias {
			return
		}
		o := g.Volumes[former]
		f.Require(o == nil || o.Type != structs.VolumeTypeHost || !v.Excludes(o),
			"volume %q: host volume %q is that of volume %q too, and its access_mode allows no other writer; "+
				"set read_only, or mount one volume in several places", alias, v.Source, former)
	}
}

// checkVolumeRequest checks a request for a volume against the job: several allocations cannot have a volume
// that allows one.
func checkVolumeRequest(f field.Errors, v *structs.VolumeRequest, j *structs.Job, g *structs.TaskGroup) {
	f.CheckString("Name", v.Name, structs.MaxName)
	f.CheckOneOf("type", v.Type, []string{structs.VolumeTypeCSI, structs.VolumeTypeHost})
	f.CheckName("source", v.Source)
	if v.Type == structs.VolumeTypeHost {
		checkHostVolumeRequest(f, v, j)
		return
	}

	checkModes(f, v.AccessMode, v.AttachmentMode)
	f.Require(!v.AccessMode.ReaderOnly() || v.ReadOnly,
		"access_mode %s needs read_only = true", v.AccessMode)
	f.Require(v.AttachmentMode != structs.CSIBlockDevice || v.MountOptions == nil,
		"mount_options is not allowed with attachment_mode block-device")
	checkMountOptions(f, v.MountOptions)
	checkOwnership(f, v)
	f.CheckOneOf("on_dead_mount", v.OnDeadMount, storage.DeadMountPolicies)
	f.Require(!v.PerAlloc || !j.PerNode(), noIndex, j.Type)
	f.Require(!v.Sticky, "sticky is for a host volume: a volume of type csi is the same for each allocation; leave sticky out")
	class := v.Claim("", 0, "").Class()
	f.Require(!class.Conflicts(class) || v.PerAlloc || v.Lifecycle != "" || g.Count <= 1,
		"access_mode %s allows one allocation, but count is %d; "+
			"use per_alloc, another access mode or count = 1", v.AccessMode, g.Count)
}

var ownershipPolicies = []string{
	"",
	structs.OwnershipRootMismatch,
	structs.OwnershipAlways,
	structs.OwnershipNever,
}

// checkOwnership checks the wanted owner of a volume. The node knows whether its users and groups exist.
func checkOwnership(f field.Errors, v *structs.VolumeRequest) {
	o := v.Ownership
	if o == nil {
		return
	}

	f.Require(v.AttachmentMode != structs.CSIBlockDevice,
		"ownership is not allowed with attachment_mode block-device: a device has no files")
	f.Require(!v.ReadOnly, "ownership is not allowed with read_only: it changes the files of the volume")
	f = f.At("ownership")
	f.Require(o.Owner != "" || o.Group != "" || o.Mode != "", "it needs an owner, a group or a mode")
	f.CheckString("owner", o.Owner, structs.MaxName)
	f.CheckString("group", o.Group, structs.MaxName)
	f.CheckOneOf("policy", o.Policy, ownershipPolicies)
	mode, err := strconv.ParseUint(cmp.Or(o.Mode, "0"), 8, 32)
	f.Require(err == nil && mode <= 0o3777,
		"mode %q is no octal mode from 0000 to 3777, such as 0770; a setuid directory has no effect", o.Mode)
}

// checkMounts checks where a task has the volumes of its group.
func checkMounts(f field.Errors, t *structs.Task, g *structs.TaskGroup) {
	modes := []string{structs.PropagationPrivate, structs.PropagationHostToTask, structs.PropagationBothWays}
	seen := map[string]bool{}
	has := sync.OnceValue(func() field.Text { return volumeNames(g) })
	for i, m := range field.FirstOf(f, "volume_mounts", t.VolumeMounts, structs.MaxListed) {
		if m == nil {
			f.Addf("volume_mount %d is null", i+1)
			continue
		}

		f := f.At("volume_mount %d", i+1)
		interpolated := strings.Contains(m.Volume, "${")
		if !interpolated && g.Volumes[m.Volume] == nil {
			f.Addf("volume %q is no volume of the group; it has: %s", m.Volume, has())
		}
		if !strings.Contains(m.PropagationMode, "${") {
			f.CheckOneOf("propagation_mode", m.PropagationMode, modes)
		}

		checkSubPath(f, m.SubPath, g.Volumes[m.Volume])
		CheckSnapshotCommands(f, m.Snapshot, g.Volumes[m.Volume])
		checkDestination(f, m.Destination)

		// Two spellings of one directory would hide each other's mount.
		clean := path.Clean("/" + m.Destination)
		f.Require(!seen[clean], "destination %q is taken by another volume_mount of the task", m.Destination)
		seen[clean] = true
	}
}

// checkSubPath checks the folder of a volume, which is nil if only the node knows it.
func checkSubPath(f field.Errors, path string, v *structs.VolumeRequest) {
	if path == "" {
		return
	}
	f.CheckText("sub_path", path)
	f.Require(v == nil || v.AttachmentMode != structs.CSIBlockDevice,
		"sub_path is not allowed with attachment_mode block-device: a device has no folders")
	err := SubPath(path)
	if err != nil && (len(path) > MaxSubPath || !strings.Contains(path, "${")) {
		f.Addf("%s", field.Text(err.Error()))
	}
}

// volumeNames lists the first of the group's volumes.
func volumeNames(g *structs.TaskGroup) field.Text {
	if len(g.Volumes) == 0 {
		return "none"
	}

	names := slices.Sorted(maps.Keys(g.Volumes))
	for i, name := range names {
		names[i] = structs.Cut(name, structs.MaxQuoted)
	}

	if len(names) > structs.MaxFaults {
		names = append(names[:structs.MaxFaults], "…")
	}

	return field.Text(strings.Join(names, ", "))
}

// checkDestination checks the place of a volume in a task. It may not lead out of the task's file system, nor
// hide it.
func checkDestination(f field.Errors, dir string) {
	f.CheckText("destination", dir)
	switch {
	case len(dir) > structs.MaxText:
	case dir == "":
		f.Addf("destination is required")
	case strings.Contains(dir, "${"): // only the node knows the value
	case slices.Contains(strings.Split(dir, "/"), "..") ||
		path.Clean("/"+dir) == "/":
		f.Addf("destination %q must be a path inside the task without \"..\", other than /", dir)
	}
}
