package rights

import (
	"maps"

	"berth/acl"
	"berth/internal/codec"
	"berth/state/csi"
	"berth/structs"
)

// writeVolumeNeeds says what the registration, the creation and the change of a volume need.
const writeVolumeNeeds = "volume: write, for a larger capacity alone volume: expand, " +
	"for its source volume: snapshot, for data from outside volume: force, for secrets_from variables: read"

// VolumeWrite is the right to register, create and change volumes. A volume of the caller may not become a
// way to the data of others: the source of its content, the ID that it has at its plugin and the variable
// with its secrets need rights, too.
var VolumeWrite = Where(writeVolumeNeeds, func(q Question) bool {
	req := q.Req.(*structs.CSIVolumeRegisterRequest)
	for _, v := range req.Volumes {
		if v != nil && !mayWriteVolume(q, namespaceOf(v, req), v) {
			return false
		}
	}
	return len(req.Volumes) > 0 || q.ACL.Namespace(req.RequestNamespace(), acl.CSIWriteVolume)
})

// namespaceOf returns the namespace that a volume gets.
func namespaceOf(v *structs.CSIVolume, req *structs.CSIVolumeRegisterRequest) string {
	if v.Namespace == "" {
		return req.RequestNamespace()
	}
	return v.Namespace
}

func mayWriteVolume(q Question, ns string, v *structs.CSIVolume) bool {
	row := csi.Volume(q.Tx, ns, v.ID)
	if !q.ACL.Volume(ns, v.ID, acl.VolumeWrite) {
		return q.ACL.Volume(ns, v.ID, acl.VolumeExpand) && onlyExpands(q, v, row)
	}
	// The operator who made the class has decided on its variable.
	fromClass := v.SecretsFrom == csi.SecretsOf(q.Tx, ns, v)
	if v.SecretsFrom != "" && !fromClass && !q.ACL.Variable(ns, v.SecretsFrom, acl.VariablesRead) {
		return false
	}

	// A plugin returns its volume of a name, whoever has asked for that before.
	movesName := v.ExternalName != "" && (row == nil || v.ExternalName != row.ExternalName)
	mayForce := q.ACL.Volume(ns, v.ID, acl.VolumeForce)
	if row == nil || row.ExternalID == "" {
		row = &structs.CSIVolume{} // nothing of it exists yet
	}
	if row.ExternalID == "" && !mayUseSource(q, ns, v) {
		return false
	}

	// The context of a volume names its data to the plugin, as its external ID does.
	movesContext := len(v.Context) > 0 && !maps.Equal(v.Context, row.Context)
	movesID := v.ExternalID != "" && v.ExternalID != row.ExternalID
	return mayForce || !movesContext && !movesID && !movesName
}

// onlyExpands reports whether a request gives a stored volume a larger capacity, or the same, and changes
// nothing else of it.
func onlyExpands(q Question, v, row *structs.CSIVolume) bool {
	if row == nil || row.State != structs.VolumeReady {
		return false
	}

	// It is what the methods make of the request.
	c := v.Copy()
	c.Namespace = row.Namespace
	c.DropServerFields()
	c.Canonicalize()
	err := csi.CompleteVolume(q.Tx, c, row, true)
	if err != nil {
		return false
	}
	c = csi.AsStored(c, row)
	if c.RequestedCapacityMin < row.RequestedCapacityMin ||
		c.RequestedCapacityMax < row.RequestedCapacityMax ||
		row.RequestedCapacityMax == 0 && c.RequestedCapacityMax != 0 {
		return false
	}

	c.RequestedCapacityMin = row.RequestedCapacityMin
	c.RequestedCapacityMax = row.RequestedCapacityMax
	c.ModifyTime = row.ModifyTime
	c.Indexes = row.Indexes
	return codec.SameBytes(c, row)
}

// mayUseSource reports whether a caller may fill a new volume with a copy. The ID of a source names a volume
// of the namespace, or otherwise one at the plugin. Both are asked about: the former may be deleted before
// the plugin is called.
func mayUseSource(q Question, ns string, v *structs.CSIVolume) bool {
	if !mayRestore(q, ns, v) {
		return false
	}
	if v.CloneID == "" {
		return true
	}

	plugin := csi.PluginOf(q.Tx, v)
	own := csi.Volume(q.Tx, ns, v.CloneID)
	external := csi.VolumeByExternal(q.Tx, plugin, v.CloneID)
	for _, source := range []*structs.CSIVolume{own, external} {
		if source != nil && !q.ACL.Volume(source.Namespace, source.ID, acl.VolumeSnapshot) {
			return false
		}
	}
	isOurs := own != nil && own.PluginID == plugin && own.ExternalID != ""
	return isOurs || external != nil || q.ACL.Volume(ns, v.ID, acl.VolumeForce)
}
