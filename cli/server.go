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
	self, err := c.API.AgentSelf(ctx)
	if err != nil {
		return err
	}
	if err := c.API.AgentLeave(ctx, c.Bool("force")); err != nil {
		return err
	}
	if self.Member == nil {
		return c.writeOutcome(changed{})
	}
	name := self.Member.Name
	return c.report(changed{"Server": name}, "Server %s has left the cluster, and its agent stops", name)
}

func serverForceLeave(ctx context.Context, c *Call) error {
	name := c.Arg(0)
	if err := c.API.AgentForceLeave(ctx, name, c.Bool("prune")); err != nil {
		return err
	}
	return c.report(changed{"Server": name}, "Server %s has lost its vote", name)
}

func raftRemovePeer(ctx context.Context, c *Call) error {
	id, address := c.String("peer-id"), c.String("peer-address")
	if (id == "") == (address == "") {
		return structs.Invalidf(
			"expected either -peer-id or -peer-address; \"berth operator raft list-peers\" shows both")
	}
	if err := c.API.RaftRemovePeer(ctx, id, address); err != nil {
		return err
	}
	return c.report(changed{"ID": id, "Address": address}, "Server %s has lost its vote", id+address)
}
