package cli

import (
	"context"

	"berth/structs"
)

const helpServerLeave = `
The server transfers its leadership, loses its vote and stops with its agent.
Tasks of a node in the same agent continue, but that node becomes down. The
data directory stays: the server joins the cluster again if it is started with
it. The server refuses to leave if the other live servers are no majority.`

const helpForceLeave = `
The server loses its vote. The list of members drops it after a day, or at
once with -prune. It is refused for a live server: use "berth server leave"
there. A server that comes back afterwards joins the cluster again.`

const helpRemovePeer = `
For a server that has failed and that "berth server force-leave" does not
know. It is refused for a live server: use "berth server leave" there.
"berth operator raft list-peers" shows IDs and addresses.`

func serverLeave(ctx context.Context, c *Call) error {
	self, err := c.API().AgentSelf(ctx)
	if err != nil {
		return err
	}
	if err := c.API().AgentLeave(ctx, c.Bool("force")); err != nil {
		return err
	}
	if self.Member == nil {
		return c.writeOutcome(struct{}{})
	}
	c.Printf("Server %s has left the cluster, and its agent stops\n", self.Member.Name)
	return c.writeOutcome(map[string]string{"Server": self.Member.Name})
}

func serverForceLeave(ctx context.Context, c *Call) error {
	if err := c.API().AgentForceLeave(ctx, c.Arg(0), c.Bool("prune")); err != nil {
		return err
	}
	c.Printf("Server %s has lost its vote\n", c.Arg(0))
	return c.writeOutcome(map[string]string{"Server": c.Arg(0)})
}

func raftRemovePeer(ctx context.Context, c *Call) error {
	id, address := c.String("peer-id"), c.String("peer-address")
	if (id == "") == (address == "") {
		return structs.Errorf(structs.KindInvalid,
			"expected either -peer-id or -peer-address; \"berth operator raft list-peers\" shows both")
	}
	if err := c.API().RaftRemovePeer(ctx, id, address); err != nil {
		return err
	}
	c.Printf("Server %s has lost its vote\n", id+address)
	return c.writeOutcome(map[string]string{"ID": id, "Address": address})
}
