package csi

import (
	"cmp"
	"maps"
	"slices"

	"berth/internal/mvcc"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
)

// CompleteVolume gives a volume of a request the values of its class. old is the stored row, nil for none.
// creates is false for a volume that exists at its plugin already: its class does not decide on its place,
// and it gets no default class. The maps and lists of v are replaced and not changed.
func CompleteVolume(tx mvcc.Reader, v, old *structs.CSIVolume, creates bool) error {
	// A volume that was made has copied the values: the class of today does not matter.
	if !NeverCreated(old) {
		keepClassValues(v, old)
		return nil
	}

	if v.Class == "" && v.PluginID == "" {
		d := DefaultClass(tx)
		if !creates || d == nil {
			return structs.Invalidf("volume %q: plugin_id is required, or class; there is no default class for it",
				v.ID)
		}
		v.Class = d.Name
	}
	if v.Class == "" {
		return nil
	}

	c := Class(tx, v.Class)
	if c == nil {
		return unknownClass(v)
	}
	err := copyFixed(v, c)
	if err == nil && creates {
		err = copyTopologies(v, c)
	}
	copyOptional(v, c)
	return err
}

// PluginOf returns the plugin that a volume of a request gets, "" if its class does not exist.
func PluginOf(tx mvcc.Reader, v *structs.CSIVolume) string {
	c := DefaultClass(tx)
	if v.Class != "" {
		c = Class(tx, v.Class)
	}
	if v.PluginID != "" || c == nil {
		return v.PluginID
	}
	return c.PluginID
}

// SecretsOf returns the variable that a volume in a namespace gets from its class, "" for none.
func SecretsOf(tx mvcc.Reader, namespace string, v *structs.CSIVolume) string {
	c := Class(tx, v.Class)
	if c == nil {
		return ""
	}
	return validate.ExpandSecretsFrom(c.SecretsFrom, namespace, v.ID)
}

func unknownClass(v *structs.CSIVolume) error {
	return structs.Preconditionf("volume %q: there is no volume class %q; see berth volume class list",
		v.ID, structs.Cut(v.Class, structs.MaxQuoted))
}

// keepClassValues completes a request for a volume of a class that was made, so that the file that made it
// still describes it.
func keepClassValues(v, old *structs.CSIVolume) {
	v.PluginID = cmp.Or(v.PluginID, old.PluginID)
	v.Class = cmp.Or(v.Class, old.Class)
	if old.Class == "" || v.Class != old.Class {
		return
	}

	if v.MountOptions != nil {
		v.MountOptions = old.MountOptions.Merge(v.MountOptions)
	}
	for key, value := range v.Parameters {
		stored, has := old.Parameters[key]
		if !has || stored != value {
			return
		}
	}
	v.Parameters = old.Parameters
}

// copyFixed copies the values that a volume cannot have otherwise. No error shows a value of a parameter.
func copyFixed(v *structs.CSIVolume, c *storage.VolumeClass) error {
	if v.PluginID != "" && v.PluginID != c.PluginID {
		return structs.Invalidf("volume %q: plugin_id is %q; class %q has the plugin %q: leave plugin_id out",
			v.ID, structs.Cut(v.PluginID, structs.MaxQuoted), c.Name, c.PluginID)
	}
	v.PluginID = c.PluginID
	v.QuotaWeight = 0
	if c.QuotaWeight != storage.DefaultClassWeight {
		v.QuotaWeight = c.QuotaWeight
	}

	for _, key := range slices.Sorted(maps.Keys(v.Parameters)) {
		fixed, has := c.Parameters[key]
		if has && fixed != v.Parameters[key] {
			return structs.Invalidf("volume %q: parameters: class %q has another value for %q: leave it out",
				v.ID, c.Name, structs.Cut(key, structs.MaxQuoted))
		}
	}
	if len(c.Parameters) > 0 {
		merged := maps.Clone(c.Parameters)
		maps.Copy(merged, v.Parameters)
		v.Parameters = merged
	}
	return nil
}

// copyOptional copies the values that the request does not have.
func copyOptional(v *structs.CSIVolume, c *storage.VolumeClass) {
	if v.SecretsFrom == "" && len(v.Secrets) == 0 {
		v.SecretsFrom = validate.ExpandSecretsFrom(c.SecretsFrom, v.Namespace, v.ID)
	}
	mounts := slices.ContainsFunc(v.RequestedCapabilities, func(use *structs.CSIVolumeCapability) bool {
		return use != nil && use.AttachmentMode == structs.CSIFileSystem
	})
	if mounts {
		v.MountOptions = c.MountOptions.Merge(v.MountOptions)
	}
	v.MutableParameters = storage.MergeParameters(c.MutableParameters, v.MutableParameters)
	v.OnNodeLoss = cmp.Or(v.OnNodeLoss, c.OnNodeLoss)
	v.Grow = cmp.Or(v.Grow, c.Grow)
	v.Trim = cmp.Or(v.Trim, c.Trim)
	v.Reclaim = cmp.Or(v.Reclaim, c.Reclaim)
	if v.Reclaim == storage.ReclaimDelete {
		v.DeleteAfter = cmp.Or(v.DeleteAfter, c.DeleteAfter)
	}
}

// copyTopologies requires the allowed topologies for a volume, or those within them that it requests.
func copyTopologies(v *structs.CSIVolume, c *storage.VolumeClass) error {
	if len(c.AllowedTopologies) == 0 {
		return nil
	}

	asked := structs.CSITopologyRequest{}
	if v.RequestedTopologies != nil {
		asked = *v.RequestedTopologies
	}
	for i, t := range asked.Required {
		contains := func(a *structs.CSITopology) bool { return a.Matches(t) }
		allowed := slices.ContainsFunc(c.AllowedTopologies, contains)
		if !allowed {
			return structs.Invalidf("volume %q: topology_request: required: topology %d: class %q does not allow it",
				v.ID, i+1, c.Name)
		}
	}
	if len(asked.Required) == 0 {
		asked.Required = c.AllowedTopologies
	}
	v.RequestedTopologies = &asked
	return nil
}
