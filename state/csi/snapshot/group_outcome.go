package snapshot

import (
	"fmt"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// GroupOutcome records the outcome of a call of the plugin. It ignores the outcome if the row is another one,
// or no longer needs the call. A creation that ended after the request to delete still tells the IDs to
// delete.
func GroupOutcome(tx *mvcc.WriteTx, p *storage.SnapshotGroupOutcomeEntry) error {
	g := Group(tx, p.RequestNamespace(), p.Name)
	if g == nil || g.CreateIndex != p.RowIndex {
		return nil
	}

	g = g.Copy()
	EndCall(&g.Progress, &p.Outcome)
	switch {
	case p.Op == storage.OpGroupDelete && p.Err == nil:
		recordGroupDeletion(tx, g, p.Now)
	case p.Op == storage.OpGroupDelete:
		recordGroupUndeleted(tx, g, p)
	case p.Op != storage.OpGroupCreate && p.Op != storage.OpGroupLearn:
		return structs.Invalidf("%q is no operation on a group snapshot", p.Op)
	case p.Err != nil:
		recordGroupUncut(tx, g, p)
	case p.Answer == nil:
		recordNoGroup(tx, g, p.Now)
	default:
		return recordGroupCut(tx, g, p)
	}
	return nil
}

// recordGroupCut stores the answer of the plugin to a creation, with the ID of each member.
func recordGroupCut(tx *mvcc.WriteTx, g *storage.GroupSnapshot, p *storage.SnapshotGroupOutcomeEntry) error {
	if g.Next() != storage.OpGroupCreate && g.Next() != storage.OpGroupLearn {
		return nil
	}

	var sources []string
	members := Members(tx, g)
	for _, m := range members {
		sources = append(sources, m.SourceExternalID)
	}
	fault := p.Answer.Fault(sources)
	if p.Answer.ID == "" || fault != "" {
		return structs.Invalidf("the answer about group snapshot %q has no ID, or %s", p.Name, fault)
	}
	for _, m := range members {
		other := csi.SnapshotByExternal(tx, g.PluginID, p.Answer.Of(m.SourceExternalID).ID)
		if other != nil && (other.Namespace != m.Namespace || other.Name != m.Name) {
			recordGroupTaken(tx, g, other, p.Now)
			return nil
		}
	}

	Cut(&g.Progress, &p.Outcome, Answer{
		ID:      p.Answer.ID,
		CutTime: p.Answer.CreateTime * 1e9,
		Ready:   p.Answer.IsReady,
	}, p.Now)
	for _, m := range members {
		cut := p.Answer.Of(m.SourceExternalID)
		m = m.Copy()
		m.ExternalID = cut.ID
		m.SizeBytes = cut.SizeBytes
		m.CutTime = g.CutTime
		m.AccessibleTopologies = cut.AccessibleTopologies
		schema.Snapshots.Put(tx, m)
	}
	settleGroup(tx, g, p.Now)
	return nil
}

// recordGroupTaken is for an answer with the ID of another row: without it, a deletion of this group cannot
// destroy the snapshot of the other.
func recordGroupTaken(tx *mvcc.WriteTx, g *storage.GroupSnapshot, other *storage.VolumeSnapshot, now int64) {
	if g.State == storage.SnapshotDeleting {
		dropGroup(tx, g, now)
		return
	}
	Fail(&g.Progress, fmt.Sprintf("plugin %q has answered with a snapshot that is %s/%s already",
		g.PluginID, other.Namespace, other.Name))
	settleGroup(tx, g, now)
}

// settleGroup stores the rows. The volumes may have waited for the end of the group to be deleted.
func settleGroup(tx *mvcc.WriteTx, g *storage.GroupSnapshot, now int64) {
	storeGroup(tx, g)
	if g.Next() == storage.OpGroupCreate {
		return
	}
	for _, m := range Members(tx, g) {
		csi.RetryReclaim(tx, m.Namespace, m.VolumeID, now)
	}
}

// recordGroupUncut stores the failure of a creation.
func recordGroupUncut(tx *mvcc.WriteTx, g *storage.GroupSnapshot, p *storage.SnapshotGroupOutcomeEntry) {
	if g.Next() != storage.OpGroupCreate && g.Next() != storage.OpGroupLearn {
		return
	}
	Uncut(&g.Progress, &p.Outcome)
	settleGroup(tx, g, p.Now)
}

// recordNoGroup is for a creation to be undone that has left nothing.
func recordNoGroup(tx *mvcc.WriteTx, g *storage.GroupSnapshot, now int64) {
	if g.Next() == storage.OpGroupLearn {
		dropGroup(tx, g, now)
	}
}

func recordGroupDeletion(tx *mvcc.WriteTx, g *storage.GroupSnapshot, now int64) {
	switch {
	case g.State == storage.SnapshotDeleting:
		dropGroup(tx, g, now)
	case g.Next() == storage.OpGroupDelete: // the remains of a failed one
		RemainsGone(&g.Progress)
		settleGroup(tx, g, now)
	}
}

// recordGroupUndeleted stores the failure of a deletion.
func recordGroupUndeleted(tx *mvcc.WriteTx, g *storage.GroupSnapshot, p *storage.SnapshotGroupOutcomeEntry) {
	if g.Next() != storage.OpGroupDelete {
		return
	}
	Undeleted(&g.Progress, &p.Outcome)
	storeGroup(tx, g)
}

// CheckGroups checks the invariants of the rows: a group and its members name each other and have one state,
// and a group that is cut has its ID and its members' IDs.
func CheckGroups(c *schema.Report) {
	schema.CheckIndexes(c, schema.SnapshotGroups)
	for g := range schema.SnapshotGroups.Scan(c) {
		title := g.Namespace + "/" + g.Name
		members := Members(c, g)
		c.Want(len(members) > 0 && len(members) == len(g.VolumeIDs),
			"group snapshot %s has %d members, of %d", title, len(members), len(g.VolumeIDs))
		for _, m := range members {
			c.Want(m.Group == g.Name && m.State == g.State && m.PluginID == g.PluginID,
				"group snapshot %s is %s, its member %s is %s of group %q", title, g.State, m.Name, m.State, m.Group)
			c.Want((m.ExternalID != "") == (g.ExternalID != ""),
				"group snapshot %s and its member %s: one of them is cut", title, m.Name)
		}
		c.Want(g.Call == nil || g.Unsettled(), "group snapshot %s is %s and called", title, g.State)
	}
	for s := range schema.Snapshots.Scan(c) {
		c.Want(s.Group == "" || Group(c, s.Namespace, s.Group) != nil, "snapshot %s/%s: its group %q has no row",
			s.Namespace, s.Name, s.Group)
	}
}
