package structs

import (
	"maps"
	"slices"
	"strings"
)

// Validate checks a volume of a user's request and returns every fault, each with its path. No secret,
// parameter or mount flag appears in one. It checks only the specification: the plugin decides on the rest.
func (v *CSIVolume) Validate() error {
	f := newFieldErrors("")
	f.checkName("volume: id", v.ID)
	f = f.at("volume %q", v.ID)
	f.checkBytes("id", len(v.ID), MaxCSIString)
	f.checkNamespace(v.Namespace)
	f.checkPluginID("plugin_id", v.PluginID)
	f.checkCSIString("name", v.Name)
	f.require(!strings.ContainsFunc(v.Name, BarredInName), "name must not hold control characters")
	f.checkCSIString("external_id", v.ExternalID)
	f.checkCSIString("snapshot_id", v.SnapshotID)
	f.checkCSIString("clone_id", v.CloneID)
	f.require(v.SnapshotID == "" || v.CloneID == "", "snapshot_id and clone_id exclude one another")
	v.validateCapacity(f)
	v.validateCapabilities(f)
	f.checkMountOptions(v.MountOptions)
	f.checkCSIMap("parameters", v.Parameters)
	f.checkCSIMap("context", v.Context)
	f.checkSecrets(v.Secrets)
	v.RequestedTopologies.validate(f.at("topology_request"))
	return f.err()
}

// Validate checks the secrets to delete a volume with.
func (r *CSIVolumeDeleteRequest) Validate() error {
	f := newFieldErrors("deleting volume %q", r.ID)
	f.checkSecrets(r.Secrets)
	return f.err()
}

// checkSecrets checks the secrets for a plugin. Neither a key nor a value appears in a fault.
func (f fieldErrors) checkSecrets(given Secrets) {
	f.checkCSIMap("secrets", given)
	bad := 0
	for k := range given {
		if !secretKeyForm().MatchString(k) {
			bad++
		}
	}
	f.require(bad == 0,
		"secrets: %d keys hold other characters than letters, digits, dots, dashes and underscores", bad)
}

// ValidateMade checks the facts of a volume that its plugin answers to a creation, and that a user may give
// for an existing one.
func (v *CSIVolume) ValidateMade() error {
	f := newFieldErrors("volume %q", v.ID)
	f.checkTotal("capacity", v.Capacity, MaxVolumeBytes, "bytes")
	f.checkTopologies(v.Topologies)
	return f.err()
}

// checkTopologies checks the topologies from which a volume is reachable.
func (f fieldErrors) checkTopologies(topologies []*CSITopology) {
	for i, t := range firstOf(f, "topologies", topologies, MaxCSITopologies) {
		if t == nil {
			f.addf("topology %d is null", i+1)
			continue
		}
		f.checkCSIMap("topology", t.Segments)
	}
}

func (v *CSIVolume) validateCapacity(f fieldErrors) {
	f.require(v.RequestedCapacityMin >= 0, "capacity_min must not be negative")
	f.require(v.RequestedCapacityMax >= 0, "capacity_max must not be negative")
	f.require(v.RequestedCapacityMin <= MaxVolumeBytes,
		"capacity_min %s is above the largest size of a volume, %s",
		FormatBytes(v.RequestedCapacityMin), FormatBytes(MaxVolumeBytes))
	f.require(v.RequestedCapacityMax <= MaxVolumeBytes,
		"capacity_max %s is above the largest size of a volume, %s",
		FormatBytes(v.RequestedCapacityMax), FormatBytes(MaxVolumeBytes))
	f.require(v.RequestedCapacityMax <= 0 || v.RequestedCapacityMax >= v.RequestedCapacityMin,
		"capacity_max (%s) must not be below capacity_min (%s)",
		FormatBytes(v.RequestedCapacityMax), FormatBytes(v.RequestedCapacityMin))
}

func (v *CSIVolume) validateCapabilities(f fieldErrors) {
	f.require(len(v.RequestedCapabilities) > 0,
		"at least one capability { access_mode, attachment_mode } is required")
	seen := map[CSIVolumeCapability]bool{}
	mounted := false
	for i, c := range firstOf(f, "capabilities", v.RequestedCapabilities, MaxListed) {
		f := f.at("capability %d", i+1)
		if c == nil {
			f.addf("it is null")
			continue
		}

		f.checkModes(c.AccessMode, c.AttachmentMode)
		f.require(!seen[*c], "it is there twice")
		seen[*c] = true
		mounted = mounted || c.AttachmentMode != CSIBlockDevice
	}

	f.require(v.MountOptions == nil || mounted || len(seen) == 0,
		"mount_options need a capability with attachment_mode file-system")
}

func (r *CSITopologyRequest) validate(f fieldErrors) {
	if r == nil {
		return
	}

	for i, t := range firstOf(f, "required", r.Required, MaxListed) {
		t.validate(f.at("required").at("topology %d", i+1))
	}

	for i, t := range firstOf(f, "preferred", r.Preferred, MaxListed) {
		f := f.at("preferred").at("topology %d", i+1)
		t.validate(f)
		equal := func(q *CSITopology) bool {
			return q != nil &&
				len(q.Segments) == len(t.Segments) && q.Matches(t)
		}
		listed := len(r.Required) == 0 || t == nil ||
			slices.ContainsFunc(r.Required, equal)
		f.require(listed, "it must also be among the required")
	}
}

// validate checks keys and values (CSI spec, Topology: keys are [prefix/]name and compare without case).
func (t *CSITopology) validate(f fieldErrors) {
	if t == nil || len(t.Segments) == 0 {
		f.addf("segments must not be empty")
		return
	}

	if f.atMost("segments", len(t.Segments), MaxListed) < len(t.Segments) {
		return
	}

	lower := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(t.Segments)) {
		prefix, name, ok := strings.Cut(key, "/")
		if !ok {
			prefix = ""
			name = key
		}

		f.require(topologyForm().MatchString(name) &&
			(!ok || topologyForm().MatchString(prefix)),
			"segment key %q must be [prefix/]name, each at most 63 letters, digits, dots, dashes and underscores", key)
		f.require(topologyForm().MatchString(t.Segments[key]),
			"the value of segment %q must be at most 63 letters, digits, dots, dashes and underscores", key)
		f.require(!lower[strings.ToLower(key)],
			"segment key %q is there twice: keys compare without regard to case", key)
		lower[strings.ToLower(key)] = true
	}
}
