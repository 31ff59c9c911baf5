package scheduler

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"berth/internal/codec"
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

// shape returns a digest of the groups without a place. Evaluations of equal shape fit or fail together in
// one state, so one of them represents all blocked ones. It is "" if that depends on more than the groups'
// demands: on the job's existing allocations or their nodes.
func (p *placer) shape() string {
	if p.outlook.job == nil || p.outlook.job.PerNode() {
		return ""
	}

	var asks []groupShape
	for _, g := range p.groups {
		switch {
		case g.failed == nil:
			continue
		case g.spec.distinct != "", len(g.spec.properties) > 0,
			g.spec.group.HasPerAlloc(), updates(p.placements, g):
			return ""
		}

		s := groupShape{
			Namespace:   p.outlook.ns,
			NodePool:    cmp.Or(g.spec.job.NodePool, structs.DefaultNodePool), // g may have an older version
			Datacenters: g.spec.job.Datacenters,
			Drivers:     g.spec.drivers,
			Ask:         g.spec.ask,
			Type:        p.outlook.job.Type,
			Volumes:     g.spec.group.Volumes,
			Constraints: g.spec.specified,
			Level:       g.spec.newest.Level,
		}

		if g.spec.network.Isolated() {
			s.Network = g.spec.network.Mode
		}

		for _, d := range g.spec.devices {
			s.Devices = append(s.Devices, d.Demand)
		}

		for _, d := range g.spec.ports {
			s.Ports = append(s.Ports, structs.Port{Value: d.Value, HostNetwork: d.HostNetwork})
		}

		asks = append(asks, s)
	}

	b, err := codec.Encode(asks)
	if err != nil {
		return "" // such an evaluation is like no other
	}

	digest := sha256.Sum256(b)
	return hex.EncodeToString(digest[:16])
}

// updates reports whether placements update the group: an allocation of it stops for its successor, which
// finds capacity where another does not.
func updates(placements []*placement, g *groupPlan) bool {
	return slices.ContainsFunc(placements, func(w *placement) bool {
		return w.plan == g && w.update
	})
}
