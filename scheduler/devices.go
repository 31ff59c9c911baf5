package scheduler

import (
	"fmt"
	"slices"

	"berth/structs"
)

// deviceDemand is a demand of a task for devices, compiled for many nodes.
type deviceDemand struct {
	task        string
	demand      *structs.RequestedDevice
	constraints []deviceConstraint
	affinities  []deviceAffinity
}

// deviceAffinity is a preference with its weight, from -1 to 1.
type deviceAffinity struct {
	deviceConstraint
	weight float64
}

// deviceDemands compiles the demands of a group's tasks.
func deviceDemands(g *structs.TaskGroup) []*deviceDemand {
	var all []*deviceDemand
	for _, t := range g.Tasks {
		if t.Resources == nil {
			continue
		}
		for _, r := range t.Resources.Devices {
			d := &deviceDemand{task: t.Name, demand: r}
			for _, c := range r.Constraints {
				d.constraints = append(d.constraints, compileDevice(c.LTarget, c.Operand, c.RTarget))
			}
			for _, a := range r.Affinities {
				d.affinities = append(d.affinities, deviceAffinity{
					compileDevice(a.LTarget, a.Operand, a.RTarget),
					float64(a.Weight) / 100,
				})
			}
			all = append(all, d)
		}
	}
	return all
}

// accepts reports whether the demand may be met from a group.
func (d *deviceDemand) accepts(g *structs.NodeDeviceResource) bool {
	if !d.demand.Matches(g) {
		return false
	}
	for _, c := range d.constraints {
		if !c.metBy(g) {
			return false
		}
	}
	return true
}

// score is the mean weight of the affinities that hold for a group, from -1 to 1.
func (d *deviceDemand) score(g *structs.NodeDeviceResource) float64 {
	sum := 0.0
	most := 0.0
	for _, a := range d.affinities {
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

// hasDevices is a group filter: the node has healthy devices for each demand by itself.
func hasDevices(g *groupPlan, n *structs.Node) string {
	for _, d := range g.devices {
		most := 0
		for _, group := range nodeDevices(n) {
			if d.accepts(group) {
				most = max(most, len(group.Healthy()))
			}
		}
		switch {
		case most == 0:
			return fmt.Sprintf("no healthy device matches %s", d.demand.Name)
		case most < d.demand.Number():
			return fmt.Sprintf("%d healthy devices match %s, %d are demanded", most, d.demand.Name, d.demand.Number())
		}
	}
	return ""
}

func nodeDevices(n *structs.Node) []*structs.NodeDeviceResource {
	if n.NodeResources == nil {
		return nil
	}
	return n.NodeResources.Devices
}

// deviceChoice are devices for all demands of an allocation, by task.
type deviceChoice struct {
	devices map[string][]*structs.AllocatedDeviceResource
	score   float64 // the mean over the demands with affinities
	scored  bool    // a demand has affinities
}

// chooseDevices chooses free devices of a node for each demand, one after the other: those of the group with
// the best score. It returns the first demand without enough free devices, nil if there is none.
func chooseDevices(demands []*deviceDemand, v *nodeView) (deviceChoice, *deviceDemand) {
	c := deviceChoice{devices: map[string][]*structs.AllocatedDeviceResource{}}
	taken := structs.DeviceUse{}
	scored := 0.0
	for _, d := range demands {
		var best *structs.NodeDeviceResource
		var ids []string
		var bestScore float64
		for _, g := range nodeDevices(v.node) {
			if !d.accepts(g) {
				continue
			}
			free := freeDevices(g, v.devices, taken)
			score := d.score(g)
			if len(free) >= d.demand.Number() &&
				(best == nil || score > bestScore) {
				best = g
				bestScore = score
				ids = free[:d.demand.Number()]
			}
		}
		if best == nil {
			return c, d
		}
		given := &structs.AllocatedDeviceResource{
			Vendor:    best.Vendor,
			Type:      best.Type,
			Name:      best.Name,
			DeviceIDs: ids,
		}
		c.devices[d.task] = append(c.devices[d.task], given)
		taken.Add(&structs.Allocation{
			ID:      d.task,
			Devices: map[string][]*structs.AllocatedDeviceResource{d.task: {given}},
		})
		if len(d.affinities) > 0 {
			c.score += bestScore
			scored++
		}
	}
	if scored > 0 {
		c.score /= scored
		c.scored = true
	}
	return c, nil
}

// freeDevices returns the healthy devices of a group that neither use has.
func freeDevices(g *structs.NodeDeviceResource, uses ...structs.DeviceUse) []string {
	return slices.DeleteFunc(g.Healthy(), func(id string) bool {
		return slices.ContainsFunc(uses, func(u structs.DeviceUse) bool {
			return u[g.ID()][id] != ""
		})
	})
}

// devicesFree checks that the node has free devices for the allocation.
func devicesFree(w *placement, v *nodeView) *refusal {
	if len(w.plan.devices) == 0 {
		return nil
	}
	_, short := chooseDevices(w.plan.devices, v)
	if short == nil {
		return nil
	}
	return &refusal{
		reason:    fmt.Sprintf("devices %s exhausted", short.demand.Name),
		dimension: "devices",
	}
}

// deviceAffinities prefers the nodes whose devices meet the affinities of the demands.
func deviceAffinities(w *placement, v *nodeView) (float64, bool) {
	if len(w.plan.devices) == 0 {
		return 0, false
	}
	c, _ := chooseDevices(w.plan.devices, v)
	return c.score, c.scored
}
