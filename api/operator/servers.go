package operator

import (
	"berth/api"
	"berth/structs"
	"berth/structs/access"
)

// The dialect sets the servers of a node by this route.
var _ = table.Handle(api.Put, "/v1/agent/servers", rejectServers, api.Needs(access.NeedsAgentWrite))

func rejectServers(*api.Call) (any, error) {
	return nil, structs.Preconditionf("a node learns the servers from each heartbeat, so nobody sets them; " +
		"servers in the block client of its configuration is for its first contact")
}
