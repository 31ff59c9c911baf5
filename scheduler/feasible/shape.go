package feasible

import (
	"cmp"

	"berth/structs"
)

// Shape holds everything of a group that decides whether one of its allocations finds a place.
type Shape struct {
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

// Shape returns the shape of the group, for a job of a type in a namespace.
func (g *Group) Shape(ns, jobType string) Shape {
	s := Shape{
		Namespace:   ns,
		NodePool:    cmp.Or(g.Job.NodePool, structs.DefaultNodePool), // it may be of an older version
		Datacenters: g.Job.Datacenters,
		Drivers:     g.drivers,
		Ask:         g.Ask,
		Type:        jobType,
		Volumes:     g.TaskGroup.Volumes,
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
		// The labels do not decide, so jobs that differ in them alone share a queue.
		s.Ports = append(s.Ports, structs.Port{Value: d.Value, HostNetwork: d.HostNetwork})
	}

	return s
}

// Limited reports whether constraints limit the allocations of a node, or of a value of an attribute.
func (g *Group) Limited() bool {
	return g.distinct != "" || len(g.properties) > 0
}
