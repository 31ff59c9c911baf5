// Package operator has the commands of those who operate the cluster: on servers, Raft, snapshots of the
// state with their redaction, the scheduler, namespaces and events, on the log of an agent, the check of a
// machine and the page.
package operator

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"berth/api"
	"berth/api/operator"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/debug"
	"berth/cli/watch"
	"berth/structs"
)

// Commands are the verbs of berth operator.
var Commands = []command.Command{
	{
		Name:     "raft",
		Synopsis: "Show the Raft configuration and remove failed servers",
		Sub: []command.Command{
			{
				Name:     "list-peers",
				Synopsis: "List the members of the Raft configuration",
				Renders:  true,
				Flags: []command.Flag{
					{Name: "stale", Usage: "Show the view of the agent's server, also without a leader"},
				},
				Run: raftListPeers,
				Examples: "berth operator raft list-peers\n" +
					"berth operator raft list-peers -stale",
			},
			{
				Name:     "remove-peer",
				Synopsis: "Remove a failed server from the Raft configuration",
				Help: `
For a server that has failed and that "berth server force-leave" does not
know. A live server is rejected: use "berth server leave" there.
"berth operator raft list-peers" shows IDs and addresses.`,
				Acts:  true,
				Flags: raftServerFlags,
				Run:   raftRemovePeer,
				Examples: "berth operator raft remove-peer -peer-id 541ba1cf-e48d-59c5-0ec1-ce31ec81cc1a\n" +
					"berth operator raft remove-peer -peer-address 10.0.0.3:4747",
			},
			{
				Name:     "transfer-leadership",
				Synopsis: "Make another server lead",
				Help: `
The server has to be alive and to have a vote. The command waits until it
leads. Writes that come meanwhile wait for it.
"berth operator raft list-peers" shows IDs and addresses.`,
				Acts:     true,
				Flags:    raftServerFlags,
				Run:      raftTransfer,
				Examples: "berth operator raft transfer-leadership -peer-address 10.0.0.3:4747",
			},
		},
	},
	operatorScheduler,
	operatorAutopilot,
	operatorClock,
	operatorAPI,
	debug.Command,
	operatorGossip,
	operatorRoot,
	{
		Name:     "check",
		Args:     "<file>",
		Synopsis: "Check the invariants of a saved state",
		Help:     helpOperatorCheck,
		Local:    true,
		Renders:  true,
		Flags:    []command.Flag{IdentityFlag},
		Run:      operatorCheck,
		Examples: "berth operator check backup.snap",
	},
	{
		Name:     "metrics",
		Synopsis: "Show the metrics of one agent",
		Flags: []command.Flag{
			{
				Name:    "format",
				Kind:    command.String,
				Value:   "json|prometheus",
				Default: operator.MetricsJSON,
				Usage:   "The format of the metrics",
			},
			{Name: "json", Usage: "The same as -format json"},
		},
		Run: operatorMetrics,
		Examples: "berth operator metrics\n" +
			"berth operator metrics -format prometheus",
	},
	{
		Name:     "snapshot",
		Synopsis: "Save and restore the whole state",
		Sub: []command.Command{
			{
				Name:     "save",
				Args:     "<file>",
				Synopsis: "Save the whole state to a file",
				Help: `
The secrets in the file are encrypted, with keys that the key-encryption key
of the servers opens. With -encrypt-to all of the file is, and only the
holders of the identities of age read it: restore, inspect and "berth operator
check" take one by -identity.`,
				Acts:  true,
				Flags: encryptFlags,
				Run:   snapshotSave,
				Examples: "berth operator snapshot save backup.snap\n" +
					"berth operator snapshot save -encrypt-to age1... backup.snap.age",
			},
			{
				Name:     "restore",
				Args:     "<file>",
				Synopsis: "Replace the whole state with a saved one",
				Help: `
A restore is rejected, and changes nothing, if the servers lack the
key-encryption key of the secrets in the archive. The error names the key. Its
file, or the copy of "berth operator root keyring init -escrow-to", opens them
once: they are wrapped for the servers' own key on the way.`,
				Acts:  true,
				Flags: restoreFlags,
				Run:   snapshotRestore,
				Examples: "berth operator snapshot restore backup.snap\n" +
					"berth operator snapshot restore -identity key.txt backup.snap.age\n" +
					"berth operator snapshot restore -keyring-file their-keyring backup.snap",
			},
			{
				Name:     "inspect",
				Args:     "<file>",
				Synopsis: "Verify and describe a saved state",
				Help: `
Also names the key-encryption keys that open the secrets in the archive, with
the number of the secrets. A restore needs those of keys with secrets. The
command calls no agent, and needs as much memory as a server.`,
				Local:   true,
				Renders: true,
				Flags:   []command.Flag{IdentityFlag},
				Run:     snapshotInspect,
				Examples: "berth operator snapshot inspect backup.snap\n" +
					"berth operator snapshot inspect -identity key.txt backup.snap.age",
			},
			redactCommand,
		},
	},
}

// raftServerFlags name a server of the Raft configuration.
var raftServerFlags = []command.Flag{
	{
		Name:  "peer-id",
		Kind:  command.String,
		Value: "id",
		Usage: "The ID of the server",
	},
	{
		Name:  "peer-address",
		Kind:  command.String,
		Value: "host:port",
		Usage: "The RPC address of the server, in place of its ID",
	},
}

// raftServer returns the server that the command names.
func raftServer(c *command.Call) (id, address string, err error) {
	id = c.String("peer-id")
	address = c.String("peer-address")
	if (id == "") == (address == "") {
		return "", "", structs.Invalidf(
			"expected either -peer-id or -peer-address; \"berth operator raft list-peers\" shows both")
	}
	return id, address, nil
}

// raftListPeers needs no leader with -stale: it is the first look at a cluster that has none.
func raftListPeers(ctx context.Context, c *command.Call) error {
	servers, err := operator.RaftConfiguration(ctx, c.API, &api.Query{AllowStale: c.Bool("stale")})
	if err != nil {
		return err
	}

	return c.Show(servers, func() error {
		var rows command.Grid
		for _, s := range servers {
			state := "follower"
			if s.Leader {
				state = "leader"
			}

			rows.AddRow(
				cmp.Or(s.Node, "(unknown)"),
				s.ID,
				s.Address,
				state,
				show.YesNo(s.Voter),
				s.RaftProtocol,
				cmp.Or(s.Status, "unknown"),
			)
		}

		c.Table("Server|ID|Address|State|Voter|Protocol|Gossip", rows)
		return nil
	})
}

// raftRemovePeer waits for the leader, which commits the change of the voters before it answers.
func raftRemovePeer(ctx context.Context, c *command.Call) error {
	id, address, err := raftServer(c)
	if err != nil {
		return err
	}

	const leader = "the leader, which takes the vote of the server"
	err = watch.New(c).Await(ctx, leader, watch.SeePeers, func() error {
		return operator.RemovePeer(ctx, c.API, id, address)
	})
	if err != nil {
		return err
	}

	outcome := command.Changed{"ID": id, "Address": address}
	return c.Report(outcome, "Server %s has lost its vote", id+address)
}

// raftTransfer waits until the other server leads.
func raftTransfer(ctx context.Context, c *command.Call) error {
	id, address, err := raftServer(c)
	if err != nil {
		return err
	}

	leader := fmt.Sprintf("server %s, which is to lead", id+address)
	err = watch.New(c).Await(ctx, leader, watch.SeePeers, func() error {
		return operator.TransferLeadership(ctx, c.API, id, address)
	})
	if err != nil {
		return err
	}

	outcome := command.Changed{"ID": id, "Address": address}
	return c.Report(outcome, "Server %s leads", id+address)
}

// operatorMetrics prints the answer unchanged, because its readers are programs.
func operatorMetrics(ctx context.Context, c *command.Call) error {
	format := c.String("format")
	if c.Bool("json") {
		format = operator.MetricsJSON
	}

	text, err := operator.Metrics(ctx, c.API, format)
	if err != nil {
		return err
	}

	c.Printf("%s\n", bytes.TrimRight(text, "\n"))
	return nil
}
