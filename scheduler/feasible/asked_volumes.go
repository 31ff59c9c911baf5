package feasible

import (
	"fmt"

	"berth/scheduler/rejects"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/quota"
)

// findAsked looks up a volume that the job asks for, and the row to create if it does not exist.
func findAsked(p *Outlook, u *VolumeUse, r *structs.VolumeRequest, index int) {
	job := &structs.Job{Namespace: p.Namespace, ID: p.Eval.JobID}
	v, makes, err := csi.FindJobVolume(p, job, csi.JobVolume{VolumeRequest: r, Index: index})
	u.Volume = v
	u.makes = makes
	u.request = r
	if makes && v.RequestedTopologies != nil {
		v.Topologies = v.RequestedTopologies.Required // the topologies of its class: see volumesReachable
	}
	if err != nil {
		// No key tells of a class that is created later.
		p.Waits = true
		u.fault = err.Error()
	}
}

// unmakableReason returns the reason for which a volume can be created on no node now, "" if it can.
func unmakableReason(p *Outlook, u VolumeUse) string {
	if csi.LacksController(p, u.Volume.PluginID) {
		return fmt.Sprintf("no controller of plugin %s is healthy", u.Volume.PluginID)
	}

	if u.request.Lifecycle == structs.LifecycleAlloc {
		return "" // no other allocation has it
	}

	// Its place is the first allocation's. The others wait until the plugin has answered where the
	// volume is.
	if placed := p.intended[volumeKey(u.claim)]; len(placed) > 0 {
		return createdFirst(placed[0].AllocID)
	}

	// Its creation has failed, and the volume must not move away from an allocation that waits for it.
	for a := range state.AllocsOfVolume(p, u.claim.Namespace, u.claim.VolumeID) {
		if !p.stopped[a.ID] {
			return createdFirst(a.ID)
		}
	}
	return ""
}

func createdFirst(allocID string) string {
	return fmt.Sprintf("it is created for allocation %s first", structs.ShortID(allocID))
}

// exhaustedIn returns the rejection of a place in which the plugin had no space for a volume that is to be
// created, or has told that it has none, nil for another place.
func exhaustedIn(p *Outlook, u *VolumeUse, place *structs.CSITopology) *rejects.Rejection {
	if !u.makes {
		return nil
	}
	e := csi.Exhausted(p, u.Volume.PluginID, u.Volume.Class, place)
	why := e.Reason(u.Volume.RequestedCapacityMin, p.Now.UnixNano())
	if why == "" {
		return nil
	}

	p.Waits = true
	return &rejects.Rejection{Reason: "CSI volume " + u.Volume.ID + ": " + why, Keys: u.keys}
}

// newVolumes returns what the volumes that are created for an allocation have of a quota beyond the rows of
// those that could not be created before.
func newVolumes(p *Outlook, uses []VolumeUse) (amounts []quota.Amounts) {
	for _, u := range uses {
		if u.makes && u.fault == "" {
			more := quota.OfVolume(u.Volume)
			more.AddAll(quota.OfVolume(csi.Volume(p, u.Volume.Namespace, u.Volume.ID)), -1)
			amounts = append(amounts, more)
		}
	}
	return amounts
}
