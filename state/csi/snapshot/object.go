package snapshot

import (
	"fmt"
	"reflect"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/storage"
)

// object is a snapshot or a group of snapshots, which share their transitions. It has copies of the rows: a
// transition edits them, and stores them.
type object struct {
	*storage.Progress
	kind      string // storage.KindSnapshot or KindGroup
	namespace string
	name      string
	plugin    string
	index     uint64                 // CreateIndex of the row
	group     *storage.GroupSnapshot // nil: a snapshot
	// members are the rows of a group's snapshots in the order of the calls. A snapshot is its only member.
	members []*storage.VolumeSnapshot
}

// find returns an object by its name, nil if there is none. A member of a group is no object of its own.
func find(tx mvcc.Reader, kind, ns, name string) *object {
	if kind == storage.KindGroup {
		g := Group(tx, ns, name)
		if g == nil {
			return nil
		}
		return ofGroup(tx, g)
	}
	s := csi.Snapshot(tx, ns, name)
	if s == nil || s.Group != "" {
		return nil
	}
	return ofSnapshot(s)
}

func ofSnapshot(row *storage.VolumeSnapshot) *object {
	s := row.Copy()
	return &object{
		Progress:  &s.Progress,
		kind:      storage.KindSnapshot,
		namespace: s.Namespace,
		name:      s.Name,
		plugin:    s.PluginID,
		index:     s.CreateIndex,
		members:   []*storage.VolumeSnapshot{s},
	}
}

func ofGroup(tx mvcc.Reader, row *storage.GroupSnapshot) *object {
	g := row.Copy()
	o := &object{
		Progress:  &g.Progress,
		kind:      storage.KindGroup,
		namespace: g.Namespace,
		name:      g.Name,
		plugin:    g.PluginID,
		index:     g.CreateIndex,
		group:     g,
	}
	for _, m := range Members(tx, g) {
		o.members = append(o.members, m.Copy())
	}
	return o
}

func (o *object) title() string { return fmt.Sprintf("%s %q", o.kind, o.name) }

// creates reports whether the next call is a creation, or repeats one.
func (o *object) creates() bool {
	return o.Step() == storage.StepCreate || o.Step() == storage.StepLearn
}

// store puts the rows. The members follow their group. Those that do not change are left out: most changes of
// a group are not about its members.
func (o *object) store(tx *mvcc.WriteTx) {
	if o.group != nil {
		schema.SnapshotGroups.Put(tx, o.group)
	}
	for _, m := range o.members {
		if o.group != nil {
			follow(m, o.Progress)
		}
		if !reflect.DeepEqual(m, csi.Snapshot(tx, m.Namespace, m.Name)) {
			schema.Snapshots.Put(tx, m)
		}
	}
}

// follow lets a member of a group have what the group has reached.
func follow(m *storage.VolumeSnapshot, group *storage.Progress) {
	m.State = group.State
	m.Reason = group.Reason
	m.Called = group.Called
	m.ReadyTime = group.ReadyTime
	m.Consistency = group.Consistency
	if group.ExternalID == "" {
		m.ExternalID = ""
	}
}

// settle stores the rows. The volumes may have waited for the end of the creation to be deleted.
func (o *object) settle(tx *mvcc.WriteTx, now int64) {
	o.store(tx)
	if o.Step() != storage.StepCreate {
		o.retryReclaim(tx, now)
	}
}

// drop deletes the rows. The volumes may have waited for that to be deleted.
func (o *object) drop(tx *mvcc.WriteTx, now int64) {
	if o.group != nil {
		schema.SnapshotGroups.Delete(tx, o.group)
	}
	for _, m := range o.members {
		schema.Snapshots.Delete(tx, m)
	}
	csi.DropUnusedPlugin(tx, o.plugin)
	o.retryReclaim(tx, now)
}

func (o *object) retryReclaim(tx *mvcc.WriteTx, now int64) {
	for _, m := range o.members {
		csi.RetryReclaim(tx, m.Namespace, m.VolumeID, now)
	}
}

// begun is what is known of an object before its first call.
func begun(now int64) storage.Progress {
	return storage.Progress{State: storage.SnapshotCreating, RequestTime: now}
}

// checkAgain decides about a request for a name that has rows. other is the error for a request that differs
// from the one before, nil for an equal one.
func (o *object) checkAgain(tx mvcc.Reader, other error) error {
	switch {
	case o.State == storage.SnapshotDeleting:
		return structs.Preconditionf("%s is being deleted", o.title())
	case other != nil:
		return other
	case o.State != storage.SnapshotFailed:
		return nil
	case o.ExternalID != "":
		return structs.Preconditionf("%s has failed, and its remains are not deleted yet: %s", o.title(), o.Reason)
	}
	for _, m := range o.members {
		err := checkSource(tx, m)
		if err != nil {
			return err
		}
	}
	return nil
}

// tryAgain lets an object that has failed be created again. The plugin gets the same name, and finds what an
// earlier call has left.
func (o *object) tryAgain(tx *mvcc.WriteTx, now int64) {
	if o.State != storage.SnapshotFailed {
		return
	}
	o.State = storage.SnapshotCreating
	o.Reason = ""
	o.LastError = nil
	o.RequestTime = now
	o.store(tx)
}

// notFound is the error for an object that does not exist.
func notFound(kind, ns, name string) error {
	return structs.NotFoundf("no %s %q in namespace %q", kind, structs.Cut(name, structs.MaxQuoted), ns)
}

// remove records that the plugin is to delete an object.
func remove(tx *mvcc.WriteTx, kind string, p *storage.SnapshotDeleteEntry) error {
	o := find(tx, kind, p.RequestNamespace(), p.Name)
	if o == nil || p.RowIndex != 0 && o.index != p.RowIndex {
		return notFound(kind, p.RequestNamespace(), p.Name)
	}
	for _, m := range o.members {
		restore := csi.RestoreOf(tx, m)
		from := "it"
		if o.group != nil {
			from = fmt.Sprintf("its snapshot %q", m.Name)
		}
		if restore != "" {
			return structs.Conflictf("%s cannot be deleted while volume %q is being created from %s",
				o.title(), restore, from)
		}
	}
	err := trust.CheckSealed(tx, p.SealedSecrets)
	if err != nil {
		return err
	}
	if p.Force || !o.MayExist() {
		o.drop(tx, p.Now)
		return nil
	}
	if o.State == storage.SnapshotDeleting && p.SealedSecrets == nil {
		return nil
	}

	if o.State != storage.SnapshotDeleting {
		o.LastError = nil
	}
	o.State = storage.SnapshotDeleting
	if p.SealedSecrets != nil {
		o.members[0].SealedSecrets = p.SealedSecrets
	}
	o.store(tx)
	return nil
}

// keep makes an object of a restored state that was being deleted ready again. One that never was ready is
// deleted.
func (o *object) keep(tx *mvcc.WriteTx) {
	if o.ReadyTime == 0 {
		return
	}
	o.State = storage.SnapshotReady
	o.LastError = nil
	o.Call = nil
	o.store(tx)
}
