package client

import (
	"time"

	"berth/client/allocrunner"
	"berth/client/holds"
)

// makeHolds makes what knows the allocations that others wait for.
func (c *Client) makeHolds() {
	c.holds = holds.NewTracker(holds.TrackerConfig{
		Allocs: c.allocs.held,
		Find: func(allocID string) holds.Alloc {
			if r := c.allocs.get(allocID); r != nil {
				return r
			}
			return nil // a nil Runner in an interface would not be nil
		},
		Node:     c.Node,
		Restored: c.restored,
	})

	c.data = holds.NewData(holds.DataConfig{
		NodeID:   c.id.NodeID,
		SecretID: c.id.SecretID,
		Region:   c.config().Region,
		Servers:  c.servers,
		Allocs:   c.allocs.held,
		Keep:     func() time.Duration { return c.config().MovedData.Keep },
	})
}

// asAllocs makes the interface values one by one: Go converts no slices.
func asAllocs(runners []*allocrunner.Runner) []holds.Alloc {
	all := make([]holds.Alloc, len(runners))
	for i, r := range runners {
		all[i] = r
	}
	return all
}
