package validate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate/field"
)

var (
	secretKeyForm = field.Pattern(`^[a-zA-Z0-9._-]+$`)
	topologyForm  = field.Pattern(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$`)
)

// Volume checks a volume of a user's request and returns every fault, each with its path. No secret,
// parameter or mount flag appears in one. It checks only the specification: the plugin decides on the rest.
func Volume(v *structs.CSIVolume) error {
	f := field.New("")
	f.CheckName("volume: id", v.ID)
	f = f.At("volume %q", v.ID)
	f.CheckBytes("id", len(v.ID), structs.MaxCSIString)
	checkNamespace(f, v.Namespace)
	// A volume without a plugin gets its class's, on a server.
	if v.PluginID != "" {
		f.CheckPluginID("plugin_id", v.PluginID)
	}
	checkClassName(f, "class", v.Class)
	checkVolumeName(f, "name", v.Name)
	checkVolumeName(f, "external_name", v.ExternalName)
	checkCSIString(f, "external_id", v.ExternalID)
	checkCSIString(f, "snapshot_id", v.SnapshotID)
	checkCSIString(f, "snapshot", v.Snapshot)
	checkCSIString(f, "clone_id", v.CloneID)
	f.Require(v.SnapshotID == "" || v.CloneID == "", "snapshot_id and clone_id exclude one another")
	checkCapacity(f, v)
	checkCapabilities(f, v)
	checkMountOptions(f, v.MountOptions)
	if err := structs.CheckLabels(v.Labels); err != nil {
		f.Addf("%v", err)
	}
	f.CheckCSIMap("parameters", v.Parameters)
	f.CheckCSIMap("mutable_parameters", v.MutableParameters)
	f.CheckCSIMap("context", v.Context)
	checkSecrets(f, v.Secrets)
	checkSecretsFrom(f, v)
	checkNodeLoss(f, v.OnNodeLoss)
	checkReclaim(f, v)
	checkVolumeUpkeep(f, v)
	checkTopologyRequest(f.At("topology_request"), v.RequestedTopologies)
	return f.Err()
}

func checkVolumeName(f field.Errors, argument, name string) {
	checkCSIString(f, argument, name)
	f.Require(!strings.ContainsFunc(name, field.BarredInName), "%s must not hold control characters", argument)
}

// checkNodeLoss checks the rule for the loss of a node that has the volume.
func checkNodeLoss(f field.Errors, policy string) {
	switch policy {
	case "", structs.LossHold, structs.LossFence, structs.LossLease:
	default:
		f.Addf("on_node_loss %.40q is unknown; one of %s, %s, %s",
			policy, structs.LossHold, structs.LossFence, structs.LossLease)
	}
}

// VolumeDelete checks the secrets to delete a volume with.
func VolumeDelete(r *structs.CSIVolumeDeleteRequest) error {
	f := field.New("deleting volume %q", r.ID)
	checkSecrets(f, r.Secrets)
	return f.Err()
}

// PluginConfig checks the settings of a plugin.
func PluginConfig(p *storage.PluginSettingsRequest) error {
	f := field.New("plugin %q", structs.Cut(p.ID, structs.MaxQuoted))
	f.CheckPluginID("ID", p.ID)
	checkNodeLoss(f, p.OnNodeLoss)
	checkSecretsPattern(f, p.SecretsFrom)
	checkPluginSettings(f, p)
	return f.Err()
}

// checkSecrets checks the secrets for a plugin. Neither a key nor a value appears in a fault.
func checkSecrets(f field.Errors, given structs.Secrets) {
	f.CheckCSIMap("secrets", given)
	bad := 0
	for k := range given {
		if !secretKeyForm().MatchString(k) {
			bad++
		}
	}
	f.Require(bad == 0,
		"secrets: %d keys hold other characters than letters, digits, dots, dashes and underscores", bad)
}

// checkCapacity checks the bounds of a size in bytes. 0 is no bound (CSI spec, CapacityRange).
func checkCapacity(f field.Errors, v *structs.CSIVolume) {
	f.Require(v.RequestedCapacityMin >= 0, "capacity_min must not be negative")
	f.Require(v.RequestedCapacityMax >= 0, "capacity_max must not be negative")
	f.Require(v.RequestedCapacityMin <= structs.MaxVolumeBytes,
		"capacity_min %s is above the largest size of a volume, %s",
		structs.FormatBytes(v.RequestedCapacityMin), structs.FormatBytes(structs.MaxVolumeBytes))
	f.Require(v.RequestedCapacityMax <= structs.MaxVolumeBytes,
		"capacity_max %s is above the largest size of a volume, %s",
		structs.FormatBytes(v.RequestedCapacityMax), structs.FormatBytes(structs.MaxVolumeBytes))
	f.Require(v.RequestedCapacityMax <= 0 || v.RequestedCapacityMax >= v.RequestedCapacityMin,
		"capacity_max (%s) must not be below capacity_min (%s)",
		structs.FormatBytes(v.RequestedCapacityMax), structs.FormatBytes(v.RequestedCapacityMin))
}

// checkCapabilities checks the ways in which a volume can be used. CreateVolume gets all of them, and needs
// at least one (CSI spec).
func checkCapabilities(f field.Errors, v *structs.CSIVolume) {
	f.Require(len(v.RequestedCapabilities) > 0,
		"at least one capability { access_mode, attachment_mode } is required")
	seen := map[structs.CSIVolumeCapability]bool{}
	mounted := false
	for i, c := range field.FirstOf(f, "capabilities", v.RequestedCapabilities, structs.MaxListed) {
		f := f.At("capability %d", i+1)
		if c == nil {
			f.Addf("it is null")
			continue
		}

		checkModes(f, c.AccessMode, c.AttachmentMode)
		f.Require(!seen[*c], "it is there twice")
		seen[*c] = true
		mounted = mounted || c.AttachmentMode != structs.CSIBlockDevice
	}

	f.Require(v.MountOptions == nil || mounted || len(seen) == 0,
		"mount_options need a capability with attachment_mode file-system")
}

// checkModes checks the modes of a volume or of a claim.
func checkModes(f field.Errors, access structs.CSIAccessMode, attachment structs.CSIAttachmentMode) {
	f.Require(access.Valid(),
		"access_mode %s; %s", requiredOr(access), field.OneOf(structs.CSIAccessModes))
	f.Require(attachment.Valid(),
		"attachment_mode %s; one of %s, %s", requiredOr(attachment), structs.CSIFileSystem,
		structs.CSIBlockDevice)
}

// requiredOr describes an invalid value: "is required" if it is empty, else that it is unknown.
func requiredOr[T ~string](value T) field.Text {
	if value == "" {
		return "is required"
	}
	return field.Text(fmt.Sprintf("%.40q is unknown", string(value)))
}

// checkMountOptions checks mount options by the bounds of the CSI spec (VolumeCapability.MountVolume). Flags
// may be secret, so no fault shows them.
func checkMountOptions(f field.Errors, o *structs.CSIMountOptions) {
	if o == nil {
		return
	}

	checkCSIString(f, "mount_options: fs_type", o.FSType)
	total := 0
	for _, flag := range o.MountFlags {
		total += len(flag)
		f.Require(flag != "", "mount_options: mount_flags holds an empty flag")
		f.Require(field.IsText(flag),
			"mount_options: a mount flag must be text in UTF-8 without NUL")
	}

	f.Require(total <= structs.MaxCSIMap,
		"mount_options: mount_flags have %d bytes in all; CSI allows %d", total, structs.MaxCSIMap)
}

// checkCSIString checks a string that is sent to a plugin (CSI spec, "Size Limits"); its text is not shown.
func checkCSIString(f field.Errors, name, s string) {
	f.Require(len(s) <= structs.MaxCSIString,
		"%s has %d bytes; CSI allows %d", name, len(s), structs.MaxCSIString)
	f.Require(field.IsText(s), "%s must be text in UTF-8 without NUL", name)
}

// checkTopologyRequest checks where a volume has to be reachable. Each preferred topology is also among the
// required ones, if there are any (CSI spec, TopologyRequirement).
func checkTopologyRequest(f field.Errors, r *structs.CSITopologyRequest) {
	if r == nil {
		return
	}

	for i, t := range field.FirstOf(f, "required", r.Required, structs.MaxListed) {
		checkTopology(f.At("required").At("topology %d", i+1), t)
	}

	for i, t := range field.FirstOf(f, "preferred", r.Preferred, structs.MaxListed) {
		f := f.At("preferred").At("topology %d", i+1)
		checkTopology(f, t)
		equal := func(q *structs.CSITopology) bool {
			return q != nil &&
				len(q.Segments) == len(t.Segments) && q.Matches(t)
		}

		listed := len(r.Required) == 0 || t == nil ||
			slices.ContainsFunc(r.Required, equal)
		f.Require(listed, "it must also be among the required")
	}
}

// checkTopology checks keys and values (CSI spec, Topology: keys are [prefix/]name and compare without case).
func checkTopology(f field.Errors, t *structs.CSITopology) {
	if t == nil || len(t.Segments) == 0 {
		f.Addf("segments must not be empty")
		return
	}

	if f.AtMost("segments", len(t.Segments), structs.MaxListed) < len(t.Segments) {
		return
	}

	lower := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(t.Segments)) {
		prefix, name, ok := strings.Cut(key, "/")
		if !ok {
			prefix = ""
			name = key
		}

		f.Require(topologyForm().MatchString(name) &&
			(!ok || topologyForm().MatchString(prefix)),
			"segment key %q must be [prefix/]name, each at most 63 letters, digits, dots, dashes and underscores", key)
		f.Require(topologyForm().MatchString(t.Segments[key]),
			"the value of segment %q must be at most 63 letters, digits, dots, dashes and underscores", key)
		f.Require(!lower[strings.ToLower(key)],
			"segment key %q is there twice: keys compare without regard to case", key)
		lower[strings.ToLower(key)] = true
	}
}
