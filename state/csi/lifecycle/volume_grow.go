package lifecycle

import (
	"berth/internal/mvcc"
	"berth/state/blocked"
	"berth/state/csi"
	"berth/state/quotas"
	"berth/structs"
	"berth/structs/autogrow"
	"berth/structs/volumeusage"
)

// VolumeGrow makes a volume larger by its own rule, or records why it does not grow. It does nothing for a
// volume that has changed since the leader read it. A quota that the growth exceeds is such a reason.
func VolumeGrow(tx *mvcc.WriteTx, p *volumeusage.VolumeGrowRequest) error {
	v := csi.Volume(tx, p.RequestNamespace(), p.ID)
	if v == nil || v.ModifyIndex != p.RowIndex || v.Grow == nil {
		return nil
	}
	if p.To == 0 {
		noteGrowthFault(tx, v, p.Fault)
		return nil
	}

	grown := v.Copy()
	grown.RequestedCapacityMin = min(p.To, v.Grow.Max)
	err := quotas.CheckVolume(tx, v, grown)
	if err != nil {
		noteGrowthFault(tx, v, err.Error())
		return nil
	}
	err = putVolume(tx, grown, p.Now)
	if err != nil {
		return err
	}

	noted := csi.Volume(tx, v.Namespace, v.ID).Copy()
	noted.Grown = &structs.CSIGrowth{
		Time: p.Now,
		From: max(v.Capacity, v.RequestedCapacityMin),
		To:   grown.RequestedCapacityMin,
	}
	blocked.PutWithoutUnblock(tx, noted)
	return nil
}

// noteGrowthFault records why a volume does not grow, "" once it need not.
func noteGrowthFault(tx *mvcc.WriteTx, v *structs.CSIVolume, fault string) {
	fault = structs.Cut(fault, structs.MaxText)
	if autogrow.Fault(v) == fault {
		return
	}

	noted := v.Copy()
	noted.Grown = &structs.CSIGrowth{Fault: fault}
	if v.Grown != nil {
		noted.Grown.Time = v.Grown.Time
		noted.Grown.From = v.Grown.From
		noted.Grown.To = v.Grown.To
	}
	blocked.PutWithoutUnblock(tx, noted)
}
