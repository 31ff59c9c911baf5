package scheduler

import (
	"cmp"
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
			all = append(all, newDeviceDemand(t.Name, r))
		}
	}
	return all
}

func newDeviceDemand(task string, r *structs.RequestedDevice) *deviceDemand {
	d := &deviceDemand{task: task, demand: r}
	for _, c := range r.Constraints {
		d.constraints = append(d.constraints, compileDevice(c.LTarget, c.Operand, c.RTarget))
	}
	for _, a := range r.Affinities {
		d.affinities = append(d.affinities, deviceAffinity{
			compileDevice(a.LTarget, a.Operand, a.RTarget),
			float64(a.Weight) / 100,
		})
	}
	return d
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

// usable returns the healthy devices of a group that the demand may have.
func (d *deviceDemand) usable(g *structs.NodeDeviceResource) []string {
	ids := g.Healthy()
	for _, c := range d.constraints {
		if c.ids != nil {
			ids = slices.DeleteFunc(ids, func(id string) bool { return !slices.Contains(c.ids, id) })
		}
	}
	return ids
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
				most = max(most, len(d.usable(group)))
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

// chooseDevices chooses free devices of a node for each demand: those of the group with the best score.
// Demands that few groups meet come first, so that a demand for any device leaves them the only one that they
// accept. It returns the first demand without enough free devices, nil if there is none.
func chooseDevices(demands []*deviceDemand, v *nodeView) (deviceChoice, *deviceDemand) {
	c := deviceChoice{devices: map[string][]*structs.AllocatedDeviceResource{}}
	taken := structs.DeviceUse{}
	sum := 0.0
	scored := 0.0
	for _, d := range hardestFirst(demands, v.node) {
		best, ids := d.chooseGroup(v, taken)
		if best == nil {
			return c, d
		}
		taken.AddDevices(d.task, c.give(d.task, best, ids))
		if len(d.affinities) > 0 {
			sum += d.score(best)
			scored++
		}
	}
	if scored > 0 {
		c.score = sum / scored
		c.scored = true
	}
	return c, nil
}

// hardestFirst orders demands by the number of groups of the node that accept them, equal ones by the devices
// that they want: most first.
func hardestFirst(demands []*deviceDemand, n *structs.Node) []*deviceDemand {
	if len(demands) < 2 {
		return demands
	}
	choices := map[*deviceDemand]int{}
	for _, d := range demands {
		for _, g := range nodeDevices(n) {
			if d.accepts(g) {
				choices[d]++
			}
		}
	}
	return slices.SortedStableFunc(slices.Values(demands), func(a, b *deviceDemand) int {
		return cmp.Or(
			cmp.Compare(choices[a], choices[b]),
			cmp.Compare(b.demand.Number(), a.demand.Number()))
	})
}

// chooseGroup returns the group with the best score that has enough free devices, and these.
func (d *deviceDemand) chooseGroup(
	v *nodeView, taken structs.DeviceUse,
) (best *structs.NodeDeviceResource, ids []string) {
	most := 0.0
	for _, g := range nodeDevices(v.node) {
		if !d.accepts(g) {
			continue
		}
		group := g.ID()
		free := slices.DeleteFunc(d.usable(g), func(id string) bool {
			return v.devices[group][id] != "" || taken[group][id] != ""
		})
		score := d.score(g)
		if len(free) >= d.demand.Number() &&
			(best == nil || score > most) {
			best = g
			most = score
			ids = free[:d.demand.Number()]
		}
	}
	return best, ids
}

// give adds devices of a group to those of a task, which has one value per group. It returns the value.
func (c *deviceChoice) give(
	task string, g *structs.NodeDeviceResource, ids []string,
) *structs.AllocatedDeviceResource {
	for _, d := range c.devices[task] {
		if d.ID() == g.ID() {
			d.DeviceIDs = append(d.DeviceIDs, ids...)
			slices.Sort(d.DeviceIDs)
			return d
		}
	}
	given := &structs.AllocatedDeviceResource{
		Vendor:    g.Vendor,
		Type:      g.Type,
		Name:      g.Name,
		DeviceIDs: slices.Clone(ids),
	}
	c.devices[task] = append(c.devices[task], given)
	return given
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
