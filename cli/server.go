package cli

import (
	"context"

	"berth/structs"
)

const helpServerLeave = `
The server hands its leadership on, loses its vote and ends with its agent.
Tasks of a node in the same agent run on, but the servers take that node for
down. The data directory stays: started again with it, the server joins the
cluster again. Where the other servers that are alive would be no majority,
the server refuses to leave.`

const helpForceLeave = `
The server loses its vote, and the gossip forgets it after a day, with -prune
at once. A server that is alive is refused: have it leave with "berth server
leave". A server that comes back after this joins the cluster again.`

const helpRemovePeer = `
For a server that is gone and that "berth server force-leave" does not
know. A server that is alive is refused: have it leave with "berth server
leave". "berth operator raft list-peers" shows IDs and addresses.`

var (
	serverLeaveFlags = []Flag{{Name: "force", Kind: Bool,
		Usage: "Leave although the cluster loses its majority and stops answering"}}
	forceLeaveFlags = []Flag{{Name: "prune", Kind: Bool,
		Usage: "Take the server off the list of members at once"}}
	listPeersFlags = []Flag{{Name: "stale", Kind: Bool,
		Usage: "Show what the agent's server knows, also while there is no leader"}}
	removePeerFlags = []Flag{
		{Name: "peer-id", Kind: String, Value: "id", Usage: "The ID of the server"},
		{Name: "peer-address", Kind: String, Value: "host:port",
			Usage: "The RPC address of the server, in place of its ID"},
	}
)

func serverLeave(ctx context.Context, c *Call) error {
	self, err := c.API().AgentSelf(ctx)
	if err != nil {
		return err
	}
	if err := c.API().AgentLeave(ctx, c.Bool("force")); err != nil {
		return err
	}
	if self.Member == nil {
		return c.answered(struct{}{})
	}
	c.Printf("Server %s has left the cluster, and its agent ends\n", self.Member.Name)
	return c.answered(map[string]string{"Server": self.Member.Name})
}

func serverForceLeave(ctx context.Context, c *Call) error {
	if err := c.API().AgentForceLeave(ctx, c.Arg(0), c.Bool("prune")); err != nil {
		return err
	}
	c.Printf("Server %s has no vote any more\n", c.Arg(0))
	return c.answered(map[string]string{"Server": c.Arg(0)})
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
	c.Printf("Server %s has no vote any more\n", id+address)
	return c.answered(map[string]string{"ID": id, "Address": address})
}
