package client

import (
	"time"

	"berth/client/allocrunner"
	"berth/client/holds"
	"berth/client/hooks/disk"
)

// makeHolds makes what knows the allocations that others wait for.
func (c *Client) makeHolds() {
	c.holds = holds.NewTracker(holds.TrackerConfig{
		Allocs: c.allAllocs,
		Find: func(allocID string) holds.Alloc {
			if r := c.runner(allocID); r != nil {
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
		Allocs:   c.allAllocs,
		Keep:     func() time.Duration { return c.config().MovedData.Keep },
	})
}

func (c *Client) allAllocs() []holds.Alloc { return asAllocs(c.allRunners()) }

func asAllocs(runners []*allocrunner.Runner) []holds.Alloc {
	all := make([]holds.Alloc, len(runners))
	for i, r := range runners {
		all[i] = r
	}
	return all
}

// localAlloc finds an allocation on this node whose data another one may take over.
func (c *Client) localAlloc(allocID string) (disk.Local, bool) {
	r := c.runner(allocID)
	if r == nil {
		return disk.Local{}, false
	}
	return disk.Local{
		Alloc:   r.Alloc(),
		Dir:     r.Dir(),
		Unwound: r.Unwound(),
	}, true
}
