package scheduler

import (
	"cmp"

	"berth/structs"
)

// groupShape holds everything of a group that decides whether one of its allocations finds a place.
type groupShape struct {
	Namespace, NodePool string
	Datacenters         []string
	Drivers             []string
	Constraints         [][]*structs.Constraint
	Ask                 structs.Resources
	Volumes             map[string]*structs.VolumeRequest
	Devices             []*structs.RequestedDevice `codec:",omitempty"`
	Ports               []structs.Port             `codec:",omitempty"` // without labels
	Network             string                     `codec:",omitempty"` // the mode of a network of its own
	Level               int                        `codec:",omitempty"` // of the agent
	Type                string                     // of the job: it decides whether others are displaced
}

// shape returns the shape of the group, for a job of a type in a namespace.
func (g *compiledGroup) shape(ns, jobType string) groupShape {
	s := groupShape{
		Namespace:   ns,
		NodePool:    cmp.Or(g.job.NodePool, structs.DefaultNodePool), // it may be of an older version
		Datacenters: g.job.Datacenters,
		Drivers:     g.drivers,
		Ask:         g.ask,
		Type:        jobType,
		Volumes:     g.group.Volumes,
		Constraints: g.specified,
		Level:       g.newest.Level,
	}

	if g.network.Isolated() {
		s.Network = g.network.Mode
	}

	for _, d := range g.devices {
		s.Devices = append(s.Devices, d.Demand)
	}

	for _, d := range g.ports {
		s.Ports = append(s.Ports, structs.Port{Value: d.Value, HostNetwork: d.HostNetwork})
	}

	return s
}

// limited reports whether constraints limit the allocations of a node, or of a value of an attribute.
func (g *compiledGroup) limited() bool {
	return g.distinct != "" || len(g.properties) > 0
}
