package simulation

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

const (
	deleteAfter = 20 * time.Minute // of a volume that is marked
	keepFor     = 25 * time.Minute // of the snapshots of a schedule
	takenEvery  = "*/5 * * * *"
	snapped     = "snapped" // the volume with a schedule
)

// markedVolumes are volumes that operators delete, and keep after all. No job uses them. They are in the
// namespace of the plugin, which has no quota.
var markedVolumes = []string{"old-0", "old-1", "old-2"}

// kept is what the storage has that may not be deleted, with the times that have really passed.
type kept struct {
	w *world

	mu      sync.Mutex
	made    int
	current map[string]string    // the volumes at the plugin, by the ID of the row
	marks   map[string]time.Time // of volumes at the plugin, since they are marked
	taken   map[string]time.Time // the snapshots at the plugin
	names   map[string]string    // their IDs by their names
}

func newKept(w *world) *kept {
	return &kept{
		w:       w,
		current: map[string]string{},
		marks:   map[string]time.Time{},
		taken:   map[string]time.Time{},
		names:   map[string]string{},
	}
}

// counts returns how many snapshots were taken, and how many of them are left.
func (k *kept) counts() (made, left int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.names), len(k.taken)
}

// begin makes the volume with the schedule.
func (k *kept) begin() {
	k.register(snapped)
	propose(k.w, fsm.SnapshotSchedulePut, &storage.SchedulePutEntry{
		WriteOptions: k.stamp(),
		Schedule: &storage.SnapshotSchedule{
			Name:     "s",
			VolumeID: snapped,
			Crons:    []string{takenEvery},
			Keep:     1,
			KeepFor:  keepFor,
		},
	})
}

// stamp stamps an entry about one of these volumes.
func (k *kept) stamp() structs.WriteOptions {
	options := k.w.now()
	options.Namespace = pluginNamespace
	return options
}

// register makes a volume, which is another one at the plugin than the last with this ID.
func (k *kept) register(id string) {
	k.mu.Lock()
	k.made++
	external := fmt.Sprintf("%s/%d", id, k.made)
	k.current[id] = external
	k.mu.Unlock()
	p := k.w.aVolume(pluginNamespace, id)
	v := p.Volumes[0]
	v.PluginID = diskPlugin
	v.ExternalID = external
	v.State = structs.VolumeReady
	v.Reclaim = storage.ReclaimDelete
	v.DeleteAfter = new(deleteAfter)
	propose(k.w, fsm.VolumePut, p)
}

// changeMark is an operation: somebody makes a volume, deletes it, or keeps it after all.
func (w *world) changeMark() {
	k := w.kept
	id := oneOf(w, markedVolumes...)
	v := csi.Volume(w.store.Read(), pluginNamespace, id)
	switch {
	case v == nil:
		w.record("make volume %s", id)
		k.register(id)
	case !v.Marked():
		w.record("delete volume %s", id)
		k.mark(v.ExternalID, true)
		err := attempt(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: id, WriteOptions: k.stamp()})
		if err != nil {
			w.fail("deleting %s: %v", id, err)
		}
	case w.chance(2):
		w.record("keep volume %s", id)
		options := structs.WriteOptions{Namespace: pluginNamespace}
		if operate(w, storage.VolumeUndelete,
			&storage.VolumeUndeleteRequest{ID: id, WriteOptions: options}) == nil {
			k.mark(v.ExternalID, false)
		}
	}
}

func (k *kept) mark(external string, marked bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if marked {
		k.marks[external] = time.Now()
	} else {
		delete(k.marks, external)
	}
}

// marked returns the volumes that are to be deleted.
func (k *kept) marked() map[string]time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.marks)
}

// deleteVolume is a call of the plugin.
func (k *kept) deleteVolume(external string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	since, marked := k.marks[external]
	there := slices.Contains(slices.Collect(maps.Values(k.current)), external)
	switch {
	case !there: // a repeated call
	case !marked:
		k.w.fail("volume %s is deleted, and nobody wants it", external)
	case tooEarly(since, deleteAfter):
		k.w.fail("volume %s is deleted %s after it was marked", external, time.Since(since))
	}
	maps.DeleteFunc(k.current, func(_, e string) bool { return e == external })
	delete(k.marks, external)
}

// takeSnapshot is a call of the plugin.
func (k *kept) takeSnapshot(r *nodecalls.ClientCSISnapshotRequest) *storage.CSISnapshot {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := "snap of " + r.Name
	if k.names[r.Name] == "" {
		k.names[r.Name] = id
		k.taken[id] = time.Now()
	}
	return &storage.CSISnapshot{
		ID:                     id,
		ExternalSourceVolumeID: r.SourceExternalID,
		SizeBytes:              1,
		CreateTime:             time.Now().Unix(),
		IsReady:                true,
	}
}

// deleteSnapshot is a call of the plugin. A schedule asks for each snapshot before the plugin takes it.
func (k *kept) deleteSnapshot(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	since, there := k.taken[id]
	if there && tooEarly(since, keepFor-takeTime) {
		k.w.fail("%s is deleted %s after it was taken", id, time.Since(since))
	}
	delete(k.taken, id)
}

// takeTime bounds the time between the request for a snapshot and the call of the plugin, of which some fail.
const takeTime = 3 * time.Minute
