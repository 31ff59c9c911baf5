package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/client/hooks"
	"berth/structs"
)

// Forget deletes the record of a volume that Down has released, once the servers know. If the volume is still
// held, the error is a precondition.
func (v *Volumes) Forget(k VolumeKey, allocID string) error {
	p, err := v.store.getPublish(k, allocID)
	if err != nil || p == nil {
		return err
	}
	if p.holds() {
		return structs.Preconditionf("volume %s: it is still held for allocation %s (%s)",
			k, allocID, p.State)
	}
	return v.store.deletePublish(k, allocID)
}

// Published returns the mount of a volume that is published for the allocation already, by the records and
// the mount table. It calls neither plugin nor servers. A restarted agent uses it to recognise the mounts of
// running allocations.
func (v *Volumes) Published(k VolumeKey, allocID string) (hooks.VolumeMount, bool, error) {
	p, err := v.store.getPublish(k, allocID)
	if err != nil || p == nil {
		return hooks.VolumeMount{}, false, err
	}
	table, err := mounts.Read()
	if err != nil {
		return hooks.VolumeMount{}, false, err
	}
	w := &volumeWork{
		Volumes: v,
		table:   table,
		publish: p,
	}
	return v.mountOf(p), w.isPublished(), nil
}

// PluginOf returns the serving instance of the plugin that has published a volume for an allocation, nil if
// there is none.
func (v *Volumes) PluginOf(k VolumeKey, allocID string) (*registry.Instance, error) {
	p, err := v.store.getPublish(k, allocID)
	if err != nil || p == nil || p.State != published {
		return nil, err
	}
	return v.m.cfg.Registry.Get(registry.Key{Kind: structs.CSIKindNode, ID: p.PluginID}), nil
}

// TurnedReadOnly reports whether the file system of a volume had turned read-only when Down unpublished it,
// or was so already when it was to be published.
func (v *Volumes) TurnedReadOnly(k VolumeKey, allocID string) (bool, error) {
	p, err := v.store.getPublish(k, allocID)
	return p != nil && p.TurnedReadOnly, err
}

// ForAlloc lists the volumes with a record for an allocation, without inline ones.
func (v *Volumes) ForAlloc(allocID string) ([]VolumeKey, error) {
	return v.volumesWhere(func(p *publishRecord) bool {
		return p.AllocID == allocID && !p.Inline
	})
}

// InUse lists the volumes of a plugin that allocations hold on this node. While there are any, the plugin
// must not stop: nothing else can release them.
func (v *Volumes) InUse(pluginID string) ([]VolumeKey, error) {
	return v.volumesWhere(func(p *publishRecord) bool {
		return p.PluginID == pluginID && p.mayBePublished()
	})
}

// Inventory returns the volumes with a record. A volume is held while it is, or may be, staged or published
// here. It is left while an allocation only claims it, or has released it and the servers do not know yet.
// With an error the inventory is incomplete. It has no inline volumes, which the servers do not know.
func (v *Volumes) Inventory() (*structs.NodeInventory, error) {
	records, err := v.store.publishes("")
	records = slices.DeleteFunc(records, func(p *publishRecord) bool { return p.Inline })
	stages, stageErr := stageTable.All(v.store.db, "")
	staged := map[VolumeKey]bool{}
	used := map[VolumeKey]bool{}
	owned := map[VolumeKey]bool{}
	for _, s := range stages {
		staged[s.Value.key()] = true
	}

	for _, p := range records {
		if p.mayBePublished() {
			used[p.key()] = true
		}
	}

	inventory := &structs.NodeInventory{}
	for _, p := range records {
		// A volume that is only staged is held by the allocation that mounts or unmounts it.
		holdsStaged := staged[p.key()] && p.holds() &&
			p.PluginID != "" && !used[p.key()]
		if !p.mayBePublished() && !holdsStaged {
			inventory.Left = append(inventory.Left, p.heldClaim())
			continue
		}

		inventory.Held = append(inventory.Held, p.heldClaim())
		owned[p.key()] = true
	}

	for _, r := range stages {
		s := r.Value
		if owned[s.key()] {
			continue
		}

		// No allocation will release this volume.
		inventory.Held = append(inventory.Held, s.heldClaim())
	}

	return inventory, errors.Join(err, stageErr)
}

// heldClaim returns the volume for the inventory, without an allocation.
func (s *stageRecord) heldClaim() structs.CSIHeldClaim {
	return structs.CSIHeldClaim{
		CSIClaimKey: structs.CSIClaimKey{
			Namespace: s.Namespace,
			VolumeID:  s.VolumeID,
		},
		PluginID:         s.PluginID,
		ExternalVolumeID: s.ExternalID,
	}
}

func (p *publishRecord) heldClaim() structs.CSIHeldClaim {
	return structs.CSIHeldClaim{
		CSIClaimKey: structs.CSIClaimKey{
			Namespace: p.Namespace,
			VolumeID:  p.VolumeID,
			AllocID:   p.AllocID,
		},
		GrantIndex:       p.Grant,
		AccessMode:       p.AccessMode,
		AttachmentMode:   p.AttachmentMode,
		PluginID:         p.PluginID,
		ExternalVolumeID: p.ExternalID,
		ExternalNodeID:   p.ExternalNodeID,
	}
}

// Users lists the allocations with a record of a volume, also if they only claim it.
func (v *Volumes) Users(k VolumeKey) ([]string, error) {
	records, err := v.store.publishesOf(k)
	ids := make([]string, len(records))
	for i, p := range records {
		ids[i] = p.AllocID
	}
	return ids, err
}

func (v *Volumes) volumesWhere(want func(*publishRecord) bool) ([]VolumeKey, error) {
	records, err := v.store.publishes("")
	var keys []VolumeKey
	for _, p := range records {
		if want(p) {
			keys = append(keys, p.key())
		}
	}
	return slices.Compact(keys), err // the records of a volume follow each other
}

// Detachment is the release of a volume for allocations that have ended, on behalf of the servers.
type Detachment struct {
	VolumeKey
	AllocID string                    // "" for all that have a record
	Running func(allocID string) bool // reports which still run
	Timeout time.Duration             // of each call of the plugin, 0 for the use's
}

// Detach releases a volume. One that a running allocation uses stays, and the error is a conflict. Without an
// error nothing of the released volumes is left.
func (v *Volumes) Detach(ctx context.Context, d Detachment) error {
	k := d.VolumeKey
	ids := []string{d.AllocID}
	if d.AllocID == "" {
		var err error
		ids, err = v.Users(k)
		if err != nil {
			return err
		}
	}

	var errs []error
	for _, id := range ids {
		switch {
		case !d.Running(id):
			errs = append(errs, v.releaseFor(ctx, d, id))
		// Without an ID, an allocation that runs and only waits for its claim is left alone.
		case d.AllocID != "" || v.mayBePublished(k, id):
			err := structs.Conflictf("volume %s: allocation %s still runs on this node", k, id)
			errs = append(errs, err)
		}
	}

	if len(ids) == 0 { // a staging without a user
		errs = append(errs, v.down(ctx, k, "", d.Timeout))
	}

	errs = append(errs, v.checkUnknownMounts(k))
	return errors.Join(errs...)
}

// mayBePublished reports whether the volume is, or may be, published for the allocation.
func (v *Volumes) mayBePublished(k VolumeKey, allocID string) bool {
	p, err := v.store.getPublish(k, allocID)
	// Without its record the volume counts as published.
	return err != nil || p != nil && p.mayBePublished()
}

// checkUnknownMounts returns an error if the volume has mounts without a record, as after the loss of the
// records: the volume is not free then.
func (v *Volumes) checkUnknownMounts(k VolumeKey) error {
	w, err := v.loadWork(context.Background(), nil, k, "")
	if err != nil {
		return err
	}

	dir := volumeDir(k)
	stage := v.hostPath(mounts.StagePath(dir))
	known := map[string]bool{stage: w.stage != nil}
	for _, p := range w.users {
		target := v.hostPath(mounts.TargetPath(dir, p.AllocID))
		for _, path := range append(w.table.Below(mounts.FoldersOf(target)), target) {
			known[path] = true
		}
	}

	for _, path := range w.table.Below(v.hostPath(dir)) {
		if !known[path] {
			return structs.Preconditionf("volume %s: %s is mounted, but the node has no record of its allocation: "+
				"it has to be unmounted by hand", k, path)
		}
	}

	return nil
}

// downAndForget releases a volume for an allocation and deletes its record.
func (v *Volumes) downAndForget(ctx context.Context, k VolumeKey, allocID string) error {
	return v.releaseFor(ctx, Detachment{VolumeKey: k}, allocID)
}

// releaseFor releases a volume for one allocation of a detachment and deletes its record.
func (v *Volumes) releaseFor(ctx context.Context, d Detachment, allocID string) error {
	err := v.down(ctx, d.VolumeKey, allocID, d.Timeout)
	if err != nil {
		return err
	}
	return v.Forget(d.VolumeKey, allocID)
}

// Report is the result of Reconcile.
type Report struct {
	Recognised int      // published volumes with a mount
	Missing    []string // published volumes without their mount: the allocation's Up publishes them again
	HalfDone   []string // steps without a mark: the allocation's Up or Down continues them
	Orphans    []string // volumes of allocations that this node does not have: released
}

// Reconcile compares the records with the mount table when the agent starts, and releases the volumes of
// unknown allocations. It changes nothing of a known allocation, whose own Up and Down do that. It waits for
// plugins, so it has to run in parallel to the start.
func (v *Volumes) Reconcile(ctx context.Context, known func(allocID string) bool) (*Report, error) {
	records, err := v.store.publishes("")
	table, tableErr := mounts.Read()
	if err := errors.Join(err, tableErr); err != nil {
		return nil, fmt.Errorf("reconciling volumes: %w", err)
	}

	r := &Report{}
	var errs []error
	for _, p := range records {
		name := fmt.Sprintf("%s for %s", p.key(), p.AllocID)
		w := &volumeWork{
			Volumes: v,
			table:   table,
			publish: p,
		}

		switch {
		case !known(p.AllocID):
			r.Orphans = append(r.Orphans, name)
			errs = append(errs, v.downAndForget(ctx, p.key(), p.AllocID))
		case p.State == published && w.isPublished():
			r.Recognised++
		case p.State == published:
			r.Missing = append(r.Missing, name)
		default:
			r.HalfDone = append(r.HalfDone, name+": "+p.State)
		}
	}

	errs = append(errs, v.releaseOrphanStages(ctx)...)
	v.logger.Info("volumes compared with the mount table",
		"recognised", r.Recognised, "missing", r.Missing,
		"half_done", r.HalfDone, "orphans", r.Orphans)
	return r, errors.Join(errs...)
}

// releaseOrphanStages releases staged volumes without a publish record. The order of steps leaves none;
// damaged records may.
func (v *Volumes) releaseOrphanStages(ctx context.Context) (errs []error) {
	stages, err := stageTable.All(v.store.db, "")
	if err != nil {
		return []error{err}
	}

	for _, s := range stages {
		k := s.Value.key()
		records, err := v.store.publishesOf(k)
		// With an error the users are not known, so the volume stays.
		if err == nil &&
			!slices.ContainsFunc(records, (*publishRecord).holds) {
			err = v.Down(ctx, k, "")
		}
		errs = append(errs, err)
	}
	return errs
}
