package feasible

import (
	"cmp"
	"fmt"
	"slices"

	"berth/scheduler/match"
	"berth/scheduler/rejects"
	"berth/structs"
	"berth/structs/capacity"
)

// hasDevices is a group filter: the node has healthy devices for each demand by itself.
func hasDevices(g *Group, n *structs.Node) string {
	for _, d := range g.devices {
		// Whether enough of them are free depends on the plan: see devicesFree.
		most := 0
		for _, group := range nodeDevices(n) {
			if d.Accepts(group) {
				most = max(most, len(d.Usable(group)))
			}
		}
		switch {
		case most == 0:
			return fmt.Sprintf("no healthy device matches %s", d.Demand.Name)
		case most < d.Demand.Number():
			return fmt.Sprintf("%d healthy devices match %s, %d are demanded",
				most, d.Demand.Name, d.Demand.Number())
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

// chooseDevices chooses free devices of a node for each demand, from the group with the best score. Demands
// that few groups meet come first, so that a demand for any device leaves them the only one that they accept.
// It returns the first demand without enough free devices, nil if there is none.
func chooseDevices(demands []*match.DeviceDemand, v *NodeView) (deviceChoice, *match.DeviceDemand) {
	c := deviceChoice{devices: map[string][]*structs.AllocatedDeviceResource{}}
	taken := capacity.DeviceUse{}
	sum := 0.0
	scored := 0.0
	for _, d := range hardestFirst(demands, v.Node) {
		best, ids := chooseGroup(d, v, taken)
		if best == nil {
			return c, d
		}

		// The next demand of the allocation must not get the same ones.
		taken.AddDevices(d.Task, c.give(d.Task, best, ids))
		if len(d.Affinities) > 0 {
			sum += d.Score(best)
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
func hardestFirst(demands []*match.DeviceDemand, n *structs.Node) []*match.DeviceDemand {
	if len(demands) < 2 {
		return demands
	}

	// The order is stable, so that demands alike are met in the order of the job, on each trial.
	choices := map[*match.DeviceDemand]int{}
	for _, d := range demands {
		for _, g := range nodeDevices(n) {
			if d.Accepts(g) {
				choices[d]++
			}
		}
	}
	return slices.SortedStableFunc(slices.Values(demands), func(a, b *match.DeviceDemand) int {
		return cmp.Or(
			cmp.Compare(choices[a], choices[b]),
			cmp.Compare(b.Demand.Number(), a.Demand.Number()))
	})
}

// chooseGroup returns the group with the best score that has enough free devices for a demand, and these.
func chooseGroup(
	d *match.DeviceDemand, v *NodeView, taken capacity.DeviceUse,
) (best *structs.NodeDeviceResource, ids []string) {
	most := 0.0
	for _, g := range nodeDevices(v.Node) {
		if !d.Accepts(g) {
			continue
		}

		group := g.ID()
		free := slices.DeleteFunc(d.Usable(g), func(id string) bool {
			return v.devices[group][id] != "" || taken[group][id] != ""
		})
		score := d.Score(g)
		if len(free) >= d.Demand.Number() &&
			(best == nil || score > most) {
			best = g
			most = score
			ids = free[:d.Demand.Number()]
		}
	}
	return best, ids
}

// give adds devices of a group to a task, which has one value per group. It returns the value.
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
func devicesFree(d *Demand, v *NodeView) *rejects.Rejection {
	if len(d.Group.devices) == 0 {
		return nil
	}
	_, short := chooseDevices(d.Group.devices, v)
	if short == nil {
		return nil
	}
	return &rejects.Rejection{
		Reason:    fmt.Sprintf("devices %s exhausted", short.Demand.Name),
		Dimension: "devices",
	}
}

// DeviceScore returns the score of the devices that an allocation of the group gets on a node, false if the
// demands have no affinities.
func (g *Group) DeviceScore(v *NodeView) (float64, bool) {
	if len(g.devices) == 0 {
		return 0, false
	}

	// The node has passed Check, so each demand has its devices.
	c, _ := chooseDevices(g.devices, v)
	return c.score, c.scored
}
