package csitrace

import (
	"fmt"
	"slices"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// groupLocks names the objects for which a call about a group snapshot is an operation: the group and, as far
// as the request has them, each of its volumes and snapshots.
func groupLocks(c *Call) (objects []string) {
	switch r := c.Request.(type) {
	case *spec.CreateVolumeGroupSnapshotRequest:
		objects = append(objects, "group snapshot of name "+r.GetName())
		for _, id := range r.GetSourceVolumeIds() {
			objects = append(objects, "volume "+id)
		}
	case *spec.DeleteVolumeGroupSnapshotRequest:
		objects = append(objects, "group snapshot "+r.GetGroupSnapshotId())
		for _, id := range r.GetSnapshotIds() {
			objects = append(objects, "snapshot "+id)
		}
	}
	return objects
}

func overlappedGroup(l *ledger, c *Call) string {
	for _, object := range groupLocks(c) {
		if fault := l.overlapped(object); fault != "" {
			return fault
		}
	}
	return ""
}

// learnGroup records the members that the answer to a creation tells.
func (l *ledger) learnGroup(g *spec.VolumeGroupSnapshot) {
	var members []string
	for _, s := range g.GetSnapshots() {
		members = append(members, s.GetSnapshotId())
		l.snapshots[s.GetSnapshotId()] = &snapshot{ready: s.GetReadyToUse(), group: g.GetGroupSnapshotId()}
	}
	slices.Sort(members)
	l.groups[g.GetGroupSnapshotId()] = members
}

// deletedAlone: a snapshot of a group is deleted with the group.
func deletedAlone(l *ledger, c *Call) string {
	s := l.snapshots[snapshotOf(c)]
	if c.RPC != "DeleteSnapshot" || s == nil || s.group == "" {
		return ""
	}
	return fmt.Sprintf("snapshot %s is a member of group snapshot %s", snapshotOf(c), s.group)
}

// changedMembers: a group is deleted with the list of its snapshots.
func changedMembers(l *ledger, c *Call) string {
	r, ok := c.Request.(*spec.DeleteVolumeGroupSnapshotRequest)
	if !ok {
		return ""
	}
	want := l.groups[r.GetGroupSnapshotId()]
	got := slices.Sorted(slices.Values(r.GetSnapshotIds()))
	if want == nil || slices.Equal(got, want) {
		return ""
	}
	return fmt.Sprintf("snapshot_ids are %q, and group snapshot %s has %q", got, r.GetGroupSnapshotId(), want)
}
