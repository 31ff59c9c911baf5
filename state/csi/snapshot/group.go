package snapshot

import (
	"iter"
	"maps"
	"strings"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// Group returns a group by its name, nil if there is none.
func Group(tx mvcc.Reader, ns, name string) *storage.GroupSnapshot {
	return schema.SnapshotGroups.Get(tx, ns, name)
}

// Members returns the rows of the members in the order of the calls.
func Members(tx mvcc.Reader, g *storage.GroupSnapshot) (rows []*storage.VolumeSnapshot) {
	for _, volume := range g.VolumeIDs {
		s := csi.Snapshot(tx, g.Namespace, g.Member(volume))
		if s != nil {
			rows = append(rows, s)
		}
	}
	return rows
}

// GroupsFrom yields the groups of a namespace whose name begins with prefix, from a namespace and name on.
func GroupsFrom(tx *mvcc.ReadTx, ns, prefix string, at mvcc.Page) iter.Seq[*storage.GroupSnapshot] {
	rows := schema.SnapshotGroups.Range(tx, schema.NamespaceScope(ns, prefix), at)
	return schema.Filter(rows, func(g *storage.GroupSnapshot) bool {
		return strings.HasPrefix(g.Name, prefix)
	})
}

// GroupNotFound is the error for a group that does not exist.
func GroupNotFound(ns, name string) error {
	return notFound(storage.KindGroup, ns, name)
}

// GroupNameAtPlugin returns the name that CreateVolumeGroupSnapshot is called with. It is the row's, and
// unique by the ID of the row, so each repeat of the call is about the same group.
func GroupNameAtPlugin(g *storage.GroupSnapshot) string { return csi.VolumeName(g.Name, g.ID) }

// GroupsOf returns the entry for a group of volumes of one plugin, with a name and an ID. The secrets for its
// calls are the first volume's.
func GroupsOf(volumes []*structs.CSIVolume, name, id string) *storage.SnapshotGroupPutEntry {
	first := volumes[0]
	p := &storage.SnapshotGroupPutEntry{Group: &storage.GroupSnapshot{
		Namespace: first.Namespace,
		Name:      name,
		ID:        id,
		PluginID:  first.PluginID,
	}}
	for _, v := range volumes {
		member := Of(v, p.Group.Member(v.ID), id)
		member.Group = name
		if v != first {
			member.SecretsFrom = ""
			member.SealedSecrets = nil
		}
		p.Members = append(p.Members, member)
		p.Group.VolumeIDs = append(p.Group.VolumeIDs, v.ID)
	}
	return p
}

// CheckGroupAble rejects a group that the plugin of its volumes is known to be unable to take. A plugin whose
// controller is not up yet may be able.
func CheckGroupAble(tx mvcc.Reader, plugin string) error {
	for i := range csi.InstancesByPluginKind(tx, plugin, structs.CSIKindController) {
		if i.Healthy && i.ControllerInfo != nil && !i.ControllerInfo.GroupSnapshots {
			return structs.Preconditionf("CSI plugin %q takes no group snapshots; take a snapshot of each volume",
				plugin)
		}
	}
	return nil
}

// GroupPut records a group that is to be taken, with its members. A group that exists with an equal request
// stays as it is; one that has failed is tried again. The error is a conflict for another request of the same
// name, and for the name of a member that another snapshot has; a precondition for a volume that is not
// ready.
func GroupPut(tx *mvcc.WriteTx, p *storage.SnapshotGroupPutEntry) error {
	err := CheckGroupPut(tx, p)
	if err != nil {
		return err
	}

	old := Group(tx, p.Group.Namespace, p.Group.Name)
	if old != nil {
		ofGroup(tx, old).tryAgain(tx, p.Now)
		return nil
	}

	g := &storage.GroupSnapshot{
		Namespace:  p.Group.Namespace,
		Name:       p.Group.Name,
		ID:         p.Group.ID,
		PluginID:   p.Group.PluginID,
		VolumeIDs:  p.Group.VolumeIDs,
		Parameters: p.Group.Parameters,
		Progress:   begun(p.Now),
	}
	for _, m := range p.Members {
		schema.Snapshots.Put(tx, fresh(m, p.Now))
	}
	schema.SnapshotGroups.Put(tx, g)
	csi.EnsurePlugin(tx, g.PluginID)
	return nil
}

// CheckGroupPut returns the error of Put, without a change.
func CheckGroupPut(tx mvcc.Reader, p *storage.SnapshotGroupPutEntry) error {
	err := checkGroupEntry(p)
	if err != nil {
		return err
	}
	old := Group(tx, p.Group.Namespace, p.Group.Name)
	if old != nil {
		return checkGroupAgain(tx, p, old)
	}
	for _, m := range p.Members {
		err := CheckPut(tx, m)
		if err != nil {
			return err
		}
	}
	return nil
}

// checkGroupEntry rejects an entry whose rows do not belong together.
func checkGroupEntry(p *storage.SnapshotGroupPutEntry) error {
	g := p.Group
	if g == nil || g.Namespace == "" || g.Name == "" || g.ID == "" || g.PluginID == "" {
		return structs.Invalidf("a group snapshot needs a namespace, a name, an ID and a plugin")
	}
	if len(p.Members) == 0 || len(p.Members) > storage.MaxGroupMembers || len(p.Members) != len(g.VolumeIDs) {
		return structs.Invalidf("group snapshot %q: expected 1 to %d volumes", g.Name, storage.MaxGroupMembers)
	}
	sources := map[string]bool{}
	for i, m := range p.Members {
		if m == nil || m.VolumeID != g.VolumeIDs[i] || m.Name != g.Member(m.VolumeID) ||
			m.Namespace != g.Namespace || m.Group != g.Name ||
			m.PluginID != g.PluginID || m.SourceExternalID == "" || sources[m.SourceExternalID] {
			return structs.Invalidf("group snapshot %q: its members are not those of its volumes, each once", g.Name)
		}
		sources[m.SourceExternalID] = true
	}
	return nil
}

// checkGroupAgain decides about a request for a name that has a row.
func checkGroupAgain(tx mvcc.Reader, p *storage.SnapshotGroupPutEntry, old *storage.GroupSnapshot) error {
	var other error
	if !sameRequest(tx, p, old) {
		other = structs.Conflictf("group snapshot %q exists already, of other volumes or with other parameters; "+
			"choose another name, or delete it: %s",
			old.Name, structs.CommandLine(old.Namespace, "volume snapshot group delete", old.Name))
	}
	return ofGroup(tx, old).checkAgain(tx, other)
}

// sameRequest reports whether a request is for the volumes and with the parameters of a group, whose order
// stays.
func sameRequest(tx mvcc.Reader, p *storage.SnapshotGroupPutEntry, old *storage.GroupSnapshot) bool {
	if len(p.Members) != len(old.VolumeIDs) || !maps.Equal(p.Group.Parameters, old.Parameters) {
		return false
	}
	for _, m := range p.Members {
		row := csi.Snapshot(tx, old.Namespace, m.Name)
		if row == nil || row.Group != old.Name || row.VolumeID != m.VolumeID || row.VolumeIndex != m.VolumeIndex {
			return false
		}
	}
	return true
}

// GroupDelete records that the plugin is to delete a group. The rows of one that was surely never cut, or
// that the plugin may keep, go at once. The error is a conflict while a volume is made from a member.
func GroupDelete(tx *mvcc.WriteTx, p *storage.SnapshotDeleteEntry) error {
	return remove(tx, storage.KindGroup, p)
}
