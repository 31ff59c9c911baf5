package catalog

import (
	"fmt"

	"berth/client/drivers/protocol/base"
	"berth/client/machine"
)

// driverConfig has the range of ports that the dialect gives a driver for itself by default, of which berth
// uses none, and the processors of the machine. Drivers divide by the number and by the speed of these.
func (c *Catalog) driverConfig() *base.NomadDriverConfig {
	return &base.NomadDriverConfig{
		ClientMinPort: 14000,
		ClientMaxPort: 14512,
		Topology:      topologyOf(c.topology, c.cfg.Compute),
	}
}

// topologyOf converts a topology. compute is the operator's sum of the speeds, or 0.
func topologyOf(t *machine.Topology, compute int) *base.ClientTopology {
	to := &base.ClientTopology{
		Distances:            &base.ClientTopologySLIT{Dimension: uint32(len(t.Nodes))},
		OverrideTotalCompute: uint64(max(compute, 0)),
	}
	for i, id := range t.Nodes {
		to.NodeIds = append(to.NodeIds, uint32(id))
		for _, distance := range t.Distances[i] {
			to.Distances.Values = append(to.Distances.Values, uint32(distance))
		}
	}

	for _, core := range t.Cores {
		grade := base.CoreGrade_Performance
		if core.Efficient {
			grade = base.CoreGrade_Efficiency
		}

		to.Cores = append(to.Cores, &base.ClientTopologyCore{
			SocketId:   uint32(core.Socket),
			NodeId:     uint32(core.Node),
			CoreId:     uint32(core.ID),
			CoreGrade:  grade,
			Disable:    core.Disabled,
			BaseSpeed:  uint64(core.BaseSpeed),
			MaxSpeed:   uint64(core.MaxSpeed),
			GuessSpeed: uint64(core.GuessSpeed),
		})
	}

	return to
}

// topologyDigest is the part of a topology whose change starts the plugins anew: a process learns of it only
// by its configuration. A guessed speed varies from one start of the agent to the next, and is left out.
func (c *Catalog) topologyDigest() string {
	text := fmt.Sprint("1 ", c.topology.Nodes, c.topology.Distances, c.cfg.Compute)
	for _, core := range c.topology.Cores {
		core.GuessSpeed = 0
		text += fmt.Sprint(core)
	}
	return text
}
