package client

import "berth/client/diskhook"

// localAlloc finds an allocation on this node whose data another one may take over.
func (c *Client) localAlloc(allocID string) (diskhook.Local, bool) {
	r := c.runner(allocID)
	if r == nil {
		return diskhook.Local{}, false
	}
	return diskhook.Local{
		Alloc:   r.Alloc(),
		Dir:     r.Dir(),
		Unwound: r.Unwound(),
	}, true
}

// awaitedData returns the allocations whose data others of this node have still to take over.
func (c *Client) awaitedData() map[string]bool {
	awaited := map[string]bool{}
	for _, r := range c.allRunners() {
		previous := diskhook.Waits(r.Alloc(), r.Dir())
		if previous != "" {
			awaited[previous] = true
		}
	}
	return awaited
}

// report adds an event to the tasks of an allocation.
func (c *Client) report(allocID, message string) {
	if r := c.runner(allocID); r != nil {
		r.Report(message)
	}
}
