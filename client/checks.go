package client

import "berth/structs"

// AllocChecks returns the last results of the checks of an allocation on this node by their IDs. The error is
// not-found if the allocation is not here.
func (c *Client) AllocChecks(allocID string) (map[string]*structs.CheckResult, error) {
	r, err := c.runnerHere(allocID)
	if err != nil {
		return nil, err
	}
	return r.Checks(), nil
}
