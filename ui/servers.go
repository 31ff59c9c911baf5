package ui

import (
	"context"

	"berth/api"
	"berth/api/operator"
	"berth/structs"
	"berth/structs/cluster"
)

// readServers returns the servers of the cluster, as the gossip of the agent has them. An agent without a
// server has no gossip: it asks the leader, which names no datacenters.
func readServers(ctx context.Context, c *api.Client) (all []*cluster.AgentMember, err error) {
	known, err := operator.ListMembers(ctx, c)
	if err == nil {
		return known.Members, nil
	}
	if !structs.IsKind(err, structs.KindPrecondition) {
		return nil, err
	}

	health, _, err := operator.AutopilotHealth(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	for _, s := range health.Servers {
		all = append(all, &cluster.AgentMember{
			Name:   s.Name,
			Status: s.SerfStatus,
			Tags:   map[string]string{"rpc_addr": s.Address},
		})
	}
	return all, nil
}
