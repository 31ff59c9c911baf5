package node

import (
	"context"
	"strings"
	"time"

	"berth/api/operator"
	"berth/api/show"
	"berth/cli/command"
)

// identityCommand is berth node identity.
var identityCommand = command.Command{
	Name:     "identity",
	Synopsis: "Show and renew the certificate of a node",
	Sub: []command.Command{
		{
			Name:     "get",
			Args:     "[node]",
			Synopsis: "Show the certificate by which a node proves its identity",
			Help: `
Without an argument it is the node of the agent that is called. The agent
renews the certificate by itself, when two thirds of its life are over.`,
			Renders: true,
			Run:     getIdentity,
			Examples: "berth node identity get n1\n" +
				"berth node identity get -json",
		},
		{
			Name:     "renew",
			Args:     "[node]",
			Synopsis: "Renew the certificate of a node now",
			Help: `
The servers sign another certificate with the same key, and the agent uses it
for its next connections. The former one is valid until its end: to reject it,
see "berth tls revoke".`,
			Acts:     true,
			Run:      renewIdentity,
			Examples: "berth node identity renew n1",
		},
	},
}

// identityNode returns the ID of the node that the argument names, "" without it.
func identityNode(ctx context.Context, c *command.Call) (string, error) {
	if len(c.Args) == 0 {
		return "", nil
	}
	return c.Resolve(ctx, "node", c.Arg(0))
}

func getIdentity(ctx context.Context, c *command.Call) error {
	id, err := identityNode(ctx, c)
	if err != nil {
		return err
	}
	found, err := operator.NodeIdentity(ctx, c.API, id)
	if err != nil {
		return err
	}

	return c.Show(found, func() error {
		claims := found.Claims
		renews := "never: tls { renew = true } lets the agent renew it"
		if claims.RenewAt > 0 {
			renews = show.Time(time.Unix(claims.RenewAt, 0))
		}
		c.Pairs(
			"Node", c.ID(claims.NodeID),
			"Identity", claims.Subject,
			"Names", strings.Join(claims.Names, ", "),
			"Serial", claims.Serial,
			"Issuer", claims.Issuer,
			"Valid from", show.Time(time.Unix(claims.NotBefore, 0)),
			"Valid until", show.Time(time.Unix(claims.Expires, 0)),
			"Renewed from", renews,
			"Last renewal failed", claims.RenewalFault,
		)
		return nil
	})
}

func renewIdentity(ctx context.Context, c *command.Call) error {
	id, err := identityNode(ctx, c)
	if err != nil {
		return err
	}
	found, err := operator.RenewNodeIdentity(ctx, c.API, id)
	if err != nil {
		return err
	}
	return c.Report(found, "The node %s has the new certificate %s, valid until %s",
		show.ShortID(found.Claims.NodeID), found.Claims.Serial,
		show.Time(time.Unix(found.Claims.Expires, 0)))
}
