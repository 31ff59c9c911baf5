package csimanager

import (
	"context"
	"errors"
	"fmt"

	"berth/client/hook"
	"berth/client/mounts"
	"berth/structs"
)

// Forget drops the record of a volume that Down has let go, once the servers know. One that is still held
// is refused with precondition.
func (v *Volumes) Forget(k VolumeKey, allocID string) error {
	p, err := v.book.publish(k, allocID)
	if err != nil || p == nil {
		return err
	}
	if p.holds() {
		return structs.Errorf(structs.KindPrecondition, "volume %s: it is still held for allocation %s (%s)", k, allocID, p.State)
	}
	return v.book.deletePublish(k, allocID)
}

// Published finds a volume that is published for the allocation already, by book and mount table. It asks
// neither plugin nor servers: that is how an agent that restarts recognises what runs on.
func (v *Volumes) Published(k VolumeKey, allocID string) (hook.VolumeMount, bool, error) {
	p, err := v.book.publish(k, allocID)
	if err != nil || p == nil {
		return hook.VolumeMount{}, false, err
	}
	table, err := mounts.Read()
	if err != nil {
		return hook.VolumeMount{}, false, err
	}
	w := &work{Volumes: v, table: table, publish: p}
	return v.mountOf(p), w.isPublished(), nil
}

// TurnedReadOnly reports whether the file system of a volume had turned read-only when Down unpublished it.
func (v *Volumes) TurnedReadOnly(k VolumeKey, allocID string) (bool, error) {
	p, err := v.book.publish(k, allocID)
	return p != nil && p.TurnedReadOnly, err
}

// ForAlloc lists the volumes that the book has for an allocation.
func (v *Volumes) ForAlloc(allocID string) ([]VolumeKey, error) {
	return v.keys(func(p *publishRecord) bool { return p.AllocID == allocID })
}

// InUse lists the volumes of a plugin that allocations hold on this node: while there are any, the plugin
// must not be stopped, for nothing else can take them down.
func (v *Volumes) InUse(pluginID string) ([]VolumeKey, error) {
	return v.keys(func(p *publishRecord) bool { return p.PluginID == pluginID && p.touched() })
}

// Inventory returns what the book says of volumes. A volume is held while it is, or may be, staged or
// published here. It is left while an allocation claims it otherwise, or has let go of it and the servers do
// not know yet. With an error the inventory is not complete.
func (v *Volumes) Inventory() (*structs.NodeInventory, error) {
	records, err := v.book.publishes(func(*publishRecord) bool { return true })
	stages, stageErr := stageTable.All(v.book.db, "")
	staged, used, owned := map[VolumeKey]bool{}, map[VolumeKey]bool{}, map[VolumeKey]bool{}
	for _, s := range stages {
		staged[VolumeKey{s.Value.Namespace, s.Value.VolumeID}] = true
	}
	for _, p := range records {
		used[p.key()] = used[p.key()] || p.touched()
	}
	inventory := &structs.NodeInventory{}
	for _, p := range records {
		// A volume that is only staged is held by the allocation that it is brought to or taken from.
		stages := staged[p.key()] && p.holds() && p.PluginID != "" && !used[p.key()]
		if !p.touched() && !stages {
			inventory.Left = append(inventory.Left, p.reported())
			continue
		}
		inventory.Held = append(inventory.Held, p.reported())
		owned[p.key()] = true
	}
	for _, s := range stages {
		k := VolumeKey{s.Value.Namespace, s.Value.VolumeID}
		if !owned[k] { // no allocation will let go of it
			inventory.Held = append(inventory.Held, structs.CSIHeldClaim{
				CSIClaimKey: structs.CSIClaimKey{Namespace: k.Namespace, VolumeID: k.ID},
				PluginID:    s.Value.PluginID, ExternalVolumeID: s.Value.ExternalID,
			})
		}
	}
	return inventory, errors.Join(err, stageErr)
}

func (p *publishRecord) reported() structs.CSIHeldClaim {
	return structs.CSIHeldClaim{
		CSIClaimKey: structs.CSIClaimKey{Namespace: p.Namespace, VolumeID: p.VolumeID, AllocID: p.AllocID},
		GrantIndex:  p.Grant, AccessMode: p.AccessMode, AttachmentMode: p.AttachmentMode,
		PluginID: p.PluginID, ExternalVolumeID: p.ExternalID, ExternalNodeID: p.ExternalNodeID,
	}
}

// Users lists the allocations that the book has for a volume, also those that only claim it.
func (v *Volumes) Users(k VolumeKey) ([]string, error) {
	records, err := v.book.publishes(func(p *publishRecord) bool { return p.key() == k })
	ids := make([]string, len(records))
	for i, p := range records {
		ids[i] = p.AllocID
	}
	return ids, err
}

func (p *publishRecord) key() VolumeKey { return VolumeKey{p.Namespace, p.VolumeID} }

func (v *Volumes) keys(want func(*publishRecord) bool) ([]VolumeKey, error) {
	records, err := v.book.publishes(want)
	var keys []VolumeKey
	seen := map[VolumeKey]bool{}
	for _, p := range records {
		if k := p.key(); !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	return keys, err
}

// Detach lets go of a volume for allocations that have ended, on the servers' behalf: for one, or with
// allocID "" for all that are in the book. running tells which still run: a volume that such an allocation
// uses is kept, and the error is a conflict. Without an error nothing of what was to be let go is left.
func (v *Volumes) Detach(ctx context.Context, k VolumeKey, allocID string, running func(allocID string) bool) error {
	ids := []string{allocID}
	if allocID == "" {
		var err error
		if ids, err = v.Users(k); err != nil {
			return err
		}
	}
	var errs []error
	for _, id := range ids {
		switch {
		case !running(id):
			errs = append(errs, v.letGo(ctx, k, id))
		case allocID != "" || v.uses(k, id):
			errs = append(errs, structs.Errorf(structs.KindConflict,
				"volume %s: allocation %s still runs on this node", k, id))
		}
	}
	if len(ids) == 0 { // nobody's: a staging that lost its last user
		errs = append(errs, v.Down(ctx, k, ""))
	}
	return errors.Join(append(errs, v.strays(k))...)
}

// uses reports whether the volume is, or may be, published for the allocation.
func (v *Volumes) uses(k VolumeKey, allocID string) bool {
	p, err := v.book.publish(k, allocID)
	return err != nil || p != nil && p.touched()
}

// strays reports mounts of a volume that the book does not explain, as after its loss: nobody may take
// the volume for free then.
func (v *Volumes) strays(k VolumeKey) error {
	s, stageErr := v.book.stage(k)
	users, usersErr := v.book.users(k, "")
	table, tableErr := mounts.Read()
	if err := errors.Join(stageErr, usersErr, tableErr); err != nil {
		return err
	}
	dir := volumeDir(k)
	known := map[string]bool{v.host(stagePath(dir)): s != nil}
	for _, p := range users {
		known[v.host(targetPath(dir, p.AllocID))] = true
	}
	for _, path := range table.Below(v.host(dir)) {
		if !known[path] {
			return structs.Errorf(structs.KindPrecondition, "volume %s: %s is mounted, but the node's book does not say for whom: it has to be unmounted by hand", k, path)
		}
	}
	return nil
}

func (v *Volumes) letGo(ctx context.Context, k VolumeKey, allocID string) error {
	if err := v.Down(ctx, k, allocID); err != nil {
		return err
	}
	return v.Forget(k, allocID)
}

// Report is what Reconcile found.
type Report struct {
	Recognised int      // published volumes that are there as the book says
	Missing    []string // published by the book, but the mount is gone: the allocation's Up publishes it again
	HalfDone   []string // a step was begun and not marked: the allocation's Up or Down takes it up again
	Orphans    []string // held for allocations that this node does not have: let go of
}

// Reconcile compares the book with the mount table when the agent starts, and lets go of what is held for
// allocations that known does not know. It touches nothing of those it knows, whatever it finds: that is
// their own Up's and Down's. It waits for plugins, so it has to run beside the start, not within it.
func (v *Volumes) Reconcile(ctx context.Context, known func(allocID string) bool) (*Report, error) {
	records, err := v.book.publishes(func(*publishRecord) bool { return true })
	table, tableErr := mounts.Read()
	if err := errors.Join(err, tableErr); err != nil {
		return nil, fmt.Errorf("reconciling volumes: %w", err)
	}
	r := &Report{}
	var errs []error
	for _, p := range records {
		name := fmt.Sprintf("%s for %s", p.key(), p.AllocID)
		w := &work{Volumes: v, table: table, publish: p}
		switch {
		case !known(p.AllocID):
			r.Orphans = append(r.Orphans, name)
			errs = append(errs, v.letGo(ctx, p.key(), p.AllocID))
		case p.State == published && w.isPublished():
			r.Recognised++
		case p.State == published:
			r.Missing = append(r.Missing, name)
		default:
			r.HalfDone = append(r.HalfDone, name+": "+p.State)
		}
	}
	errs = append(errs, v.unowned(ctx)...)
	v.logger.Info("volumes were compared with the mount table", "recognised", r.Recognised,
		"missing", r.Missing, "half_done", r.HalfDone, "orphans", r.Orphans)
	return r, errors.Join(errs...)
}

// unowned lets go of stagings that no allocation is written down for. The order of steps makes none; a
// book that was damaged may have them.
func (v *Volumes) unowned(ctx context.Context) (errs []error) {
	stages, err := stageTable.All(v.book.db, "")
	if err != nil {
		return []error{err}
	}
	for _, s := range stages {
		k := VolumeKey{s.Value.Namespace, s.Value.VolumeID}
		owned, err := v.book.owned(k)
		if err == nil && !owned {
			err = v.Down(ctx, k, "")
		}
		errs = append(errs, err)
	}
	return errs
}

// Check lists what is wrong with the book in itself and against the mount table; nothing, when no work is
// under way.
func (v *Volumes) Check() ([]string, error) {
	records, err := v.book.publishes(func(*publishRecord) bool { return true })
	stages, stageErr := stageTable.All(v.book.db, "")
	table, tableErr := mounts.Read()
	if err := errors.Join(err, stageErr, tableErr); err != nil {
		return nil, err
	}
	var faults []string
	owned, expected := map[VolumeKey]bool{}, map[string]bool{}
	for _, p := range records {
		target := v.host(targetPath(p.Dir, p.AllocID))
		owned[p.key()] = owned[p.key()] || p.holds()
		expected[target] = p.touched()
		if p.State == published && p.Mounted && !table.Mounted(target) {
			faults = append(faults, fmt.Sprintf("volume %s is published for %s by the book, but not mounted at %s", p.key(), p.AllocID, target))
		}
	}
	for _, s := range stages {
		k := VolumeKey{s.Value.Namespace, s.Value.VolumeID}
		expected[v.host(stagePath(s.Value.Dir))] = true
		if !owned[k] {
			faults = append(faults, fmt.Sprintf("volume %s is %s by the book, but no allocation holds it", k, s.Value.State))
		}
	}
	for _, path := range table.Below(v.root) {
		if !expected[path] {
			faults = append(faults, fmt.Sprintf("%s is mounted, but the book does not know it", path))
		}
	}
	return faults, nil
}
