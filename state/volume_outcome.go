package state

import (
	"slices"

	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
)

// VolumeOutcome records the outcome of a call of a plugin for a volume: see csi.VolumeOutcome. If the
// plugin has no space for a volume that a job has asked for, the allocations that wait for it are replaced:
// another node may be in a place with space. A new volume of a job that asks for more by now grows.
func VolumeOutcome(tx *WriteTx, p *structs.CSIVolumeOutcome) error {
	err := csi.VolumeOutcome(tx, p)
	if err != nil {
		return err
	}

	v := csi.Volume(tx, p.RequestNamespace(), p.ID)
	if v == nil || v.JobID == "" {
		return nil
	}
	if p.Op == "create" && v.State == structs.VolumeReady {
		csi.GrowJobVolume(tx, v, p.Now)
	}

	full := v.LastError != nil && v.LastError.Code == structs.CSICodeExhausted
	if v.State != structs.VolumeFailed || !full {
		return nil
	}
	for _, a := range slices.Collect(schema.AllocsByVolume.Scan(tx, v.Namespace, v.ID)) {
		replace(tx, a, p.Now)
	}
	return nil
}

// replace makes the scheduler stop an allocation and place another one for it, as AllocStop does.
func replace(tx *WriteTx, old *structs.Allocation, now int64) {
	if old.Migrate {
		return
	}
	a := old.Copy()
	a.Migrate = true
	a.ModifyTime = now
	putAlloc(tx, old, a)
	enqueueFor(tx, a, structs.TriggerAllocStop, now)
}
