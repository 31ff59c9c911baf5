package csi

import (
	"berth/internal/mvcc"
	"berth/state/namespace"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/storage"
)

// VolumeGrow makes a volume larger by its own rule, or records why it does not grow. It does nothing for a
// volume that has changed since the leader read it. A quota that the growth exceeds is such a reason.
func VolumeGrow(tx *mvcc.WriteTx, p *storage.VolumeGrowRequest) error {
	v := Volume(tx, p.RequestNamespace(), p.ID)
	if v == nil || v.ModifyIndex != p.RowIndex || v.Grow == nil {
		return nil
	}
	if p.To == 0 {
		noteGrowthFault(tx, v, p.Fault)
		return nil
	}

	grown := v.Copy()
	grown.RequestedCapacityMin = min(p.To, v.Grow.Max)
	err := namespace.CheckVolumeQuota(tx, v, grown)
	if err != nil {
		noteGrowthFault(tx, v, err.Error())
		return nil
	}
	err = putVolume(tx, grown, p.Now)
	if err != nil {
		return err
	}

	noted := Volume(tx, v.Namespace, v.ID).Copy()
	noted.Grown = &structs.CSIGrowth{
		Time: p.Now,
		From: max(v.Capacity, v.RequestedCapacityMin),
		To:   grown.RequestedCapacityMin,
	}
	if grewItself(v) {
		noted.Grown.Reached = v.RequestedCapacityMin
	}
	unblock.PutVolumeWithout(tx, noted)
	return nil
}

// grewItself reports whether a growth by itself requested the size of a volume, also if its plugin
// has rejected a later one.
func grewItself(v *structs.CSIVolume) bool {
	g := v.Grown
	return g != nil && (g.To == v.RequestedCapacityMin || g.Reached != 0 && g.Reached == v.RequestedCapacityMin)
}

// noteGrowthFault records why a volume does not grow, "" once it need not.
func noteGrowthFault(tx *mvcc.WriteTx, v *structs.CSIVolume, fault string) {
	fault = structs.Cut(fault, structs.MaxText)
	if storage.GrowFault(v) == fault {
		return
	}

	noted := v.Copy()
	noted.Grown = &structs.CSIGrowth{}
	if v.Grown != nil {
		*noted.Grown = *v.Grown
	}
	noted.Grown.Fault = fault
	unblock.PutVolumeWithout(tx, noted)
}
