// Package jointokencmd has the commands on the tokens with which machines join a cluster.
package jointokencmd

import (
	"context"
	"fmt"
	"time"

	"berth/api"
	"berth/cli/command"
	"berth/structs/admin"
)

// Command returns the verbs on the tokens of a role, admin.JoinNode or admin.JoinServer.
func Command(role string) command.Command {
	verb := "berth " + role + " join-token "
	return command.Command{
		Name:     "join-token",
		Synopsis: "Create, list and delete the tokens with which a " + role + " joins",
		Sub: []command.Command{
			{
				Name:     "create",
				Synopsis: "Create a token with which a " + role + " gets its certificate",
				Help: `
The token is a secret, and is shown only here. On the new machine, give it to
"berth tls join". It also names the certificate authority, so that the machine
knows the servers. The servers store a hash of it.`,
				Acts:  true,
				Flags: createFlags(role),
				Run: func(ctx context.Context, c *command.Call) error {
					return create(ctx, c, role)
				},
				Examples: verb + "create\n" + verb + "create -ttl 10m",
			},
			{
				Name:     "list",
				Synopsis: "List the tokens that can still be used, without their secrets",
				Renders:  true,
				Run: func(ctx context.Context, c *command.Call) error {
					return list(ctx, c, role)
				},
				Examples: verb + "list",
			},
			{
				Name:     "revoke",
				Args:     "<id>",
				Synopsis: "Make a token useless",
				Help: `
Machines that have joined with it stay.`,
				Acts: true,
				Run: func(ctx context.Context, c *command.Call) error {
					err := api.DeleteJoinToken(ctx, c.API, c.Arg(0))
					if err != nil {
						return err
					}
					return c.Report(command.Changed{"ID": c.Arg(0)}, "The join token %s is deleted", c.Arg(0))
				},
				Examples: verb + "revoke 0123456789abcdef",
			},
		},
	}
}

func createFlags(role string) []command.Flag {
	flags := []command.Flag{
		{
			Name:    "ttl",
			Kind:    command.Duration,
			Value:   "duration",
			Default: "1h",
			Usage:   "How long the token can be used; at most 720h",
		},
		{
			Name:    "uses",
			Kind:    command.Number,
			Value:   "number",
			Default: "1",
			Usage:   "How many " + role + "s can join with it",
		},
	}

	if role == admin.JoinServer {
		return flags
	}

	return append(flags,
		command.Flag{
			Name:  "node-name",
			Kind:  command.String,
			Value: "name",
			Usage: "The only name that the node may have",
		},
		command.Flag{
			Name:  "node-pool",
			Kind:  command.String,
			Value: "pool",
			Usage: "The only node pool that the nodes may be in",
		},
	)
}

func create(ctx context.Context, c *command.Call, role string) error {
	r := &admin.JoinTokenCreateRequest{
		Role: role,
		TTL:  c.Duration("ttl"),
		Uses: int(c.Number("uses")),
	}

	if role == admin.JoinNode {
		r.NodeName = c.String("node-name")
		r.NodePool = c.String("node-pool")
	}

	if r.Uses < 1 {
		return command.BadUsage("-uses is %d; expected 1 or more", r.Uses)
	}

	token, err := api.CreateJoinToken(ctx, c.API, r)
	if err != nil {
		return err
	}

	c.Printf("%s\n", token.Token)
	return c.WriteOutcome(token)
}

func list(ctx context.Context, c *command.Call, role string) error {
	all, _, err := api.JoinTokens(ctx, c.API, nil)
	if err != nil {
		return err
	}

	tokens := []*admin.JoinToken{}
	for _, t := range all {
		if t.Role == role {
			tokens = append(tokens, t)
		}
	}

	return c.Show(tokens, func() error {
		var rows command.Grid
		for _, t := range tokens {
			rows.AddRow(t.ID, fmt.Sprint(t.Uses), t.NodeName, t.NodePool,
				command.FormatTime(time.Unix(0, t.ExpireTime)))
		}
		c.Table("ID|Uses|Node name|Node pool|Expires", rows)
		return nil
	})
}
