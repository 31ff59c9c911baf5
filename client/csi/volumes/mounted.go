package volumes

import (
	"berth/structs/storage"
	"context"
	"errors"
	"time"
)

// Mounted is a mount that this node has made and seen, for an allocation or, with AllocID "", the staged one.
type Mounted struct {
	Volume   storage.UsageKey
	AllocID  string
	PluginID string
	Path     string // on the host
	// Writes: it could be written when it was mounted, and its user may write.
	Writes bool
	// Trim is the time between two trims that the user has asked for, 0 for none and for the staged mount.
	Trim time.Duration
}

// Aside does side work on a volume, which yields to the steps of the volume: see locks.Sequences.
func Aside(ctx context.Context, v *Volumes, k VolumeKey, do func(context.Context)) bool {
	return v.seq.Aside(ctx, k.String(), do)
}

// Mounts returns the mounts that the records of this boot tell of, without the mounts of inline volumes. They
// may be gone from the mount table.
func (v *Volumes) Mounts() ([]Mounted, error) {
	records, err := v.store.publishes("")
	stages, stageErr := stageTable.All(v.store.db, "")
	var list []Mounted
	for _, p := range records {
		if p.State == published && p.Mounted && !p.Inline && p.BootID == v.boot {
			list = append(list, Mounted{p.key().Usage(), p.AllocID, p.PluginID, v.hostPath(p.target()),
				p.Writable && !p.ReadOnly, p.Trim})
		}
	}
	for _, r := range stages {
		if s := r.Value; s.State == staged && s.Mounted && s.BootID == v.boot {
			list = append(list, Mounted{s.key().Usage(), "", s.PluginID, v.hostPath(s.path()), s.Writable, 0})
		}
	}
	return list, errors.Join(err, stageErr)
}
