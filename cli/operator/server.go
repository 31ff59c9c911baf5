package operator

import (
	"berth/api/operator"
	"context"
	"fmt"
	"net"

	"berth/api/show"
	"berth/cli/certificate"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
	"berth/structs/cluster"
)

// ServerCommands are the verbs of berth server.
var ServerCommands = []command.Command{
	{
		Name:     "members",
		Synopsis: "List the servers",
		Renders:  true,
		Run:      serverMembers,
		Examples: "berth server members",
	},
	{
		Name:     "join",
		Args:     "<address>...",
		Synopsis: "Make the agent's server join the gossip of other servers",
		Help: `
An address is the gossip address of a server: host or host:port. The server
joins at once, but not again after a restart: then it uses retry_join and the
servers that it knew. The leader gives a new server its vote. Never join
servers of two clusters: each leader would take over the other's servers.`,
		Acts: true,
		Run:  serverJoin,
		Examples: "berth server join 10.0.0.1\n" +
			"berth server join -address http://10.0.0.3:4746 10.0.0.1:4748 10.0.0.2:4748",
	},
	certificate.JoinTokenCommand(cluster.JoinServer),
	{
		Name:     "leave",
		Synopsis: "Remove the agent's server from the cluster and stop the agent",
		Help: `
The server transfers its leadership, loses its vote and stops with its agent.
Tasks of a node in the same agent continue, but that node becomes down. The
data directory stays: the server joins the cluster again if it is started with
it. The server does not leave if the other live servers are no majority.`,
		Acts: true,
		Flags: []command.Flag{{
			Name:  "force",
			Usage: "Leave even if the cluster loses its majority and becomes unavailable",
		}},
		Run: serverLeave,
		Examples: "berth server leave\n" +
			"berth server leave -address http://10.0.0.3:4746",
	},
	{
		Name:     "force-leave",
		Args:     "<server>",
		Synopsis: "Mark a failed server as left",
		Help: `
The server loses its vote. The list of members drops it after a day, or at
once with -prune. A live server is rejected: use "berth server leave" there. A
server that comes back afterwards joins the cluster again.`,
		Acts:  true,
		Flags: []command.Flag{{Name: "prune", Usage: "Remove the server from the list of members at once"}},
		Run: func(ctx context.Context, c *command.Call) error {
			name := c.Arg(0)
			const leader = "the leader, which takes the vote of the server"
			err := watch.New(c).Await(ctx, leader, watch.SeeServers, func() error {
				return operator.ForceLeave(ctx, c.API, name, c.Bool("prune"))
			})
			if err != nil {
				return err
			}
			return c.Report(command.Changed{"Server": name}, "Server %s has lost its vote", name)
		},
		Examples: "berth server force-leave s3\n" +
			"berth server force-leave -prune s3.global",
	},
}

// serverMembers shows the members as the agent's gossip has them, also while there is no leader.
func serverMembers(ctx context.Context, c *command.Call) error {
	members, err := operator.ListMembers(ctx, c.API)
	if err != nil {
		return err
	}

	leader, err := operator.Leader(ctx, c.API)
	if err != nil && !structs.IsKind(err, structs.KindUnavailable) {
		return err
	}

	return c.Show(members, func() error {
		var rows command.Grid
		for _, m := range members.Members {
			rpc := net.JoinHostPort(m.Addr, m.Tags["port"])
			rows.AddRow(
				m.Name,
				m.Addr,
				fmt.Sprint(m.Port),
				m.Status,
				show.YesNo(leader != "" && rpc == leader),
				m.Tags["build"],
				m.Tags["dc"],
				m.Tags["region"],
			)
		}

		c.Table("Name|Address|Port|Status|Leader|Version|Datacenter|Region", rows)
		if leader == "" {
			c.Printf("\nThere is no leader now\n")
		}

		return nil
	})
}

// serverJoin waits for the answers of all addresses, and tells how many have answered.
func serverJoin(ctx context.Context, c *command.Call) error {
	joined := 0
	answers := "the answers of the servers: " + show.JoinComma(c.Args...)
	err := watch.New(c).Await(ctx, answers, watch.SeeServers, func() (err error) {
		joined, err = operator.Join(ctx, c.API, c.Args)
		return err
	})
	if err != nil {
		return err
	}

	outcome := command.Changed{"Joined": fmt.Sprint(joined)}
	return c.Report(outcome, "Joined the gossip at %d of %d addresses", joined, len(c.Args))
}

// serverLeave waits until the server has given up its leadership and its vote. Its agent ends after the
// answer, so the name of the server is read before.
func serverLeave(ctx context.Context, c *command.Call) error {
	self, err := operator.ReadAgent(ctx, c.API)
	if err != nil {
		return err
	}

	const end = "the end of its leadership and of its vote"
	err = watch.New(c).Await(ctx, end, watch.SeeServers, func() error {
		return operator.Leave(ctx, c.API, c.Bool("force"))
	})
	if err != nil {
		return err
	}

	if self.Member == nil {
		return c.WriteOutcome(command.Changed{})
	}

	name := self.Member.Name
	outcome := command.Changed{"Server": name}
	return c.Report(outcome, "Server %s has left the cluster, and its agent stops", name)
}
