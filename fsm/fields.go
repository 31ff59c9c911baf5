package fsm

import "berth/structs"

// These functions report whether a payload has a field that a later version introduced: see sinceField.

func forceSettles(p *structs.CSIVolumeForceRequest) bool {
	return p.Settle != 0
}

func deregisterSettles(p *structs.CSIVolumeDeregisterRequest) bool {
	return p.Settle != 0
}

// DevicesSince is the version whose servers know devices. An older one stores neither the devices of a node
// nor those of an allocation, and so would apply the next plan in another way.
const DevicesSince = 4

var (
	nodeDevices = sinceField(DevicesSince, nodeHasDevices)
	jobDevices  = sinceField(DevicesSince, jobWantsDevices)
	planDevices = sinceField(DevicesSince, planGivesDevices)
)

func nodeHasDevices(p *structs.NodeRegisterRequest) bool {
	return p.Node != nil && p.Node.NodeResources != nil &&
		len(p.Node.NodeResources.Devices) > 0
}

func jobWantsDevices(p *structs.JobRegisterRequest) bool {
	if p.Job == nil {
		return false
	}
	for _, g := range p.Job.TaskGroups {
		if g == nil {
			continue
		}
		for _, t := range g.Tasks {
			if t != nil && t.Resources != nil && len(t.Resources.Devices) > 0 {
				return true
			}
		}
	}
	return false
}

func planGivesDevices(p *structs.Plan) bool {
	for _, a := range p.Place {
		if a != nil && len(a.Devices) > 0 {
			return true
		}
	}
	return false
}
