package node

import (
	"berth/api/nodes"
	"context"
	"strconv"
	"time"

	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/cluster"
)

var foreignSheet = command.Sheet[*cluster.ForeignNode]{
	Titles: "ID|Name|Address|Cluster|Allocations|Volumes|Asked",
	Row: func(c *command.Call, n *cluster.ForeignNode) []string {
		return []string{
			c.ID(n.ID),
			n.Name,
			n.HTTPAddr,
			c.ID(n.ClusterID),
			strconv.Itoa(n.Allocs),
			strconv.Itoa(n.Volumes),
			show.Ago(time.Unix(0, n.Asked)),
		}
	},
}

const foreignRemedy = `What runs and is mounted on them stays as it is. If these servers have lost
their state: berth operator snapshot restore. To move a node to this cluster,
which ends all of that: remove the file cluster-id in the state directory of
its agent.`

// listNodes shows the nodes of the cluster, and nodes of others that ask to join it.
func listNodes(ctx context.Context, c *command.Call) error {
	nodes, _, err := nodes.List(ctx, c.API, nil)
	if err != nil {
		return err
	}

	return c.Show(nodes, func() error {
		nodeSheet.Print(c, "node", nodes)
		return printForeign(ctx, c)
	})
}

// printForeign shows the nodes of other clusters, if there are any.
func printForeign(ctx context.Context, c *command.Call) error {
	foreign, _, err := nodes.ListForeign(ctx, c.API, nil)
	if structs.IsKind(err, structs.KindNotFound) {
		return nil // a server of an earlier version
	}
	if err != nil || len(foreign) == 0 {
		return err
	}

	foreignSheet.Section(c, "Nodes of another cluster, which are rejected", foreign)
	c.Printf("%s\n", foreignRemedy)
	return nil
}
