package certificate

import (
	"context"
	"fmt"
	"time"

	"berth/api/operator"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/cluster"
)

// JoinTokenCommand returns the verbs on the tokens of a role, cluster.JoinNode or cluster.JoinServer.
func JoinTokenCommand(role string) command.Command {
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
				Flags: joinTokenFlags(role),
				Run: func(ctx context.Context, c *command.Call) error {
					return createJoinToken(ctx, c, role)
				},
				Examples: verb + "create\n" + verb + "create -ttl 10m",
			},
			{
				Name:     "list",
				Synopsis: "List the tokens that can still be used, without their secrets",
				Renders:  true,
				Run: func(ctx context.Context, c *command.Call) error {
					return listJoinTokens(ctx, c, role)
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
					err := operator.DeleteJoinToken(ctx, c.API, c.Arg(0))
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

// IntroTokenCommand makes the token of a node under the name and with the options of the dialect.
var IntroTokenCommand = command.Command{
	Name:     "intro",
	Synopsis: "Create the token with which a node joins",
	Sub: []command.Command{{
		Name:     "create",
		Synopsis: "Create a token with which one node gets its certificate",
		Help: `
The token is the one of "berth node join-token create" for one node. It is a
secret, and is shown only here. On the new machine, give it to "berth tls
join". A certificate proves there what the token says.`,
		Acts:  true,
		Flags: introFlags(),
		Run: func(ctx context.Context, c *command.Call) error {
			return requestJoinToken(ctx, c, &cluster.JoinTokenCreateRequest{Role: cluster.JoinNode, Uses: 1})
		},
		Examples: "berth node intro create -node-name n1 -node-pool gpu -ttl 15m",
	}},
}

// introFlags are the flags of a node's token without its uses: the dialect has a pool in each of its tokens.
func introFlags() (flags []command.Flag) {
	for _, f := range joinTokenFlags(cluster.JoinNode) {
		if f.Name == "node-pool" {
			f.Default = structs.DefaultNodePool
		}
		if f.Name != "uses" {
			flags = append(flags, f)
		}
	}
	return flags
}

func joinTokenFlags(role string) []command.Flag {
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

	if role == cluster.JoinServer {
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

func createJoinToken(ctx context.Context, c *command.Call, role string) error {
	r := &cluster.JoinTokenCreateRequest{Role: role, Uses: int(c.Number("uses"))}
	if r.Uses < 1 {
		return command.BadUsage("-uses is %d; expected 1 or more", r.Uses)
	}
	return requestJoinToken(ctx, c, r)
}

// requestJoinToken creates a token for a role and a number of machines with the other options.
func requestJoinToken(ctx context.Context, c *command.Call, r *cluster.JoinTokenCreateRequest) error {
	r.TTL = c.Duration("ttl")
	if r.Role == cluster.JoinNode {
		r.NodeName = c.String("node-name")
		r.NodePool = c.String("node-pool")
	}

	token, err := operator.CreateJoinToken(ctx, c.API, r)
	if err != nil {
		return err
	}

	c.Printf("%s\n", token.Token)
	return c.WriteOutcome(token)
}

func listJoinTokens(ctx context.Context, c *command.Call, role string) error {
	all, _, err := operator.JoinTokens(ctx, c.API, nil)
	if err != nil {
		return err
	}

	tokens := []*cluster.JoinToken{}
	for _, t := range all {
		if t.Role == role {
			tokens = append(tokens, t)
		}
	}

	return c.Show(tokens, func() error {
		var rows command.Grid
		for _, t := range tokens {
			rows.AddRow(t.ID, fmt.Sprint(t.Uses), t.NodeName, t.NodePool,
				show.Time(time.Unix(0, t.ExpireTime)))
		}
		c.Table("ID|Uses|Node name|Node pool|Expires", rows)
		return nil
	})
}
