package match

import (
	"slices"

	"berth/structs"
)

// DeviceDemand is a demand of a task for devices, compiled for many nodes.
type DeviceDemand struct {
	Task        string
	Demand      *structs.RequestedDevice
	constraints []deviceConstraint
	Affinities  []deviceAffinity
}

// deviceAffinity is a preference with its weight, from -1 to 1.
type deviceAffinity struct {
	deviceConstraint
	weight float64
}

// DeviceDemands compiles the demands of a group's tasks.
func DeviceDemands(g *structs.TaskGroup) []*DeviceDemand {
	var all []*DeviceDemand
	for _, t := range g.Tasks {
		if t.Resources == nil {
			continue
		}
		for _, r := range t.Resources.Devices {
			all = append(all, newDeviceDemand(t.Name, r))
		}
	}
	return all
}

// newDeviceDemand compiles one demand. Weights are percentages in a job.
func newDeviceDemand(task string, r *structs.RequestedDevice) *DeviceDemand {
	d := &DeviceDemand{Task: task, Demand: r}
	for _, c := range r.Constraints {
		d.constraints = append(d.constraints, compileDevice(c.LTarget, c.Operand, c.RTarget))
	}
	for _, a := range r.Affinities {
		d.Affinities = append(d.Affinities, deviceAffinity{
			compileDevice(a.LTarget, a.Operand, a.RTarget),
			float64(a.Weight) / 100,
		})
	}
	return d
}

// Accepts reports whether the demand may be met from a group.
func (d *DeviceDemand) Accepts(g *structs.NodeDeviceResource) bool {
	// The name of the demand comes first: vendor, type and name, or a part of them.
	if !d.Demand.Matches(g) {
		return false
	}
	for _, c := range d.constraints {
		if !c.metBy(g) {
			return false
		}
	}
	return true
}

// Usable returns the healthy devices of a group that the demand may have.
func (d *DeviceDemand) Usable(g *structs.NodeDeviceResource) []string {
	// Healthy returns a new list, which DeleteFunc may change.
	ids := g.Healthy()
	for _, c := range d.constraints {
		if c.ids != nil {
			ids = slices.DeleteFunc(ids, func(id string) bool { return !slices.Contains(c.ids, id) })
		}
	}
	return ids
}

// Score is the mean weight of the affinities that hold for a group, from -1 to 1.
func (d *DeviceDemand) Score(g *structs.NodeDeviceResource) float64 {
	sum := 0.0
	most := 0.0
	for _, a := range d.Affinities {
		// All weights count, also of affinities that do not hold, so that the score is a share of what is
		// possible.
		most += max(a.weight, -a.weight)
		if a.metBy(g) {
			sum += a.weight
		}
	}
	if most == 0 {
		return 0
	}
	return sum / most
}
