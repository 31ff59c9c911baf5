package certificate

import (
	"context"
	"time"

	"berth/api/nodes"
	"berth/api/operator"
	"berth/api/show"
	"berth/cli/command"
	"berth/internal/pki"
	"berth/structs"
	"berth/structs/cluster"
)

var revokeCommand = command.Command{
	Name:     "revoke",
	Synopsis: "Revoke the certificates of a machine or an operator, or one",
	Help: `
Takes effect at once: the agents close the open connections of a revoked
certificate and reject new ones. Name one of -node, -server, -operator and
-serial.

The tasks of a revoked node go on until its lease ends. Then the node counts
as lost, and its volumes follow on_node_loss. A revoked machine never renews.
It joins again with a new token and a new key. A revoked server stays a voter
until it is removed with "berth operator raft remove-peer".

-operator ends all certificates of an operator, also those that it got for
itself. The name cannot be used until "berth tls unrevoke": take another one.

-serial is for one certificate of any role.`,
	Acts: true,
	Flags: []command.Flag{
		{Name: "node", Kind: command.String, Value: "id", Usage: "The node"},
		{Name: "server", Kind: command.String, Value: "name",
			Usage: "The name of the server in its certificate"},
		{Name: "operator", Kind: command.String, Value: "name", Usage: "The name of the operator"},
		{
			Name:  "serial",
			Kind:  command.String,
			Value: "number",
			Usage: `The serial number in hexadecimal, as "berth tls cert info" shows it`,
		},
		{Name: "reason", Kind: command.String, Value: "text", Usage: "Why; recorded"},
		{Name: "yes", Usage: "Do not ask"},
	},
	Run: revoke,
	Examples: "berth tls revoke -node 541ba1cf -reason \"the machine was stolen\"\n" +
		"berth tls revoke -operator ann -reason \"the laptop was stolen\"\n" +
		"berth tls revoke -serial 5f0a90aa8dfc04a1e2a51a4c9d9f7b31 -yes",
}

var revocationsCommand = command.Command{
	Name:     "revocations",
	Synopsis: "List the revoked machines, operators and certificates",
	Renders:  true,
	Run:      listRevocations,
	Examples: "berth tls revocations",
}

var unrevokeCommand = command.Command{
	Name:     "unrevoke",
	Args:     "<id>",
	Synopsis: "Delete a revocation",
	Help: `
The certificates are valid again until they end. Delete a revocation when all
its certificates have ended, or when it was a mistake.`,
	Acts: true,
	Run: func(ctx context.Context, c *command.Call) error {
		err := operator.DeleteRevocation(ctx, c.API, c.Arg(0))
		if err != nil {
			return err
		}
		return c.Report(command.Changed{"ID": c.Arg(0)}, "The revocation %s is deleted", c.Arg(0))
	},
	Examples: "berth tls unrevoke node-541ba1cf-e48d-59c5-0ec1-ce31ec81cc1a",
}

// revoke asks first, and then revokes what exactly one of the options names.
func revoke(ctx context.Context, c *command.Call) error {
	given := 0
	for _, name := range []string{"node", "server", "operator", "serial"} {
		if c.Given(name) {
			given++
		}
	}

	if given != 1 {
		return command.BadUsage("%d of -node, -server, -operator and -serial are given; expected one", given)
	}

	r := &cluster.CertificateRevokeRequest{
		Serial: c.String("serial"),
		Reason: c.String("reason"),
	}

	err := tellRevocation(ctx, c, r)
	if err == nil && !c.Bool("yes") {
		err = command.Confirm(c, "Revoke", "-yes")
	}
	if err != nil {
		return err
	}

	answer, err := operator.RevokeCertificates(ctx, c.API, r)
	if err != nil {
		return err
	}

	return c.Report(command.Changed{"ID": answer.ID}, "The revocation is %s", answer.ID)
}

// tellRevocation fills in the machine or operator of a request, and says what the revocation does.
func tellRevocation(ctx context.Context, c *command.Call, r *cluster.CertificateRevokeRequest) error {
	switch {
	case c.Given("node"):
		r.Role = cluster.JoinNode
		return tellNode(ctx, c, r)
	case c.Given("server"):
		r.Role = cluster.JoinServer
		r.Name = c.String("server")
		c.Printf("The servers and nodes close their connections with server %s and take no others.\n", r.Name)
		c.Printf("It stays a voter: remove it with `berth operator raft remove-peer`. A stolen server has the\n")
		c.Printf("key of the gossip, the keyring and the key of the authority: replace them\n")
		c.Printf("(docs/operations/certificates.md).\n")
		return nil
	case c.Given("operator"):
		r.Role = cluster.RevokeOperator
		r.Name = c.String("operator")
		c.Printf("The agents close the connections of the operator %s and take no others.\n", r.Name)
		id := cluster.MachineRevocationID(r.Role, r.Name)
		c.Printf("Nobody can use the name until `berth tls unrevoke %s`.\n", id)
		return nil
	}
	serial, err := pki.ParseSerial(r.Serial)
	if err != nil {
		return err
	}

	c.Printf("The agents close the connections of the certificate %s and take no others.\n", serial)
	return nil
}

func tellNode(ctx context.Context, c *command.Call, r *cluster.CertificateRevokeRequest) error {
	id, err := c.Resolve(ctx, "node", c.String("node"))
	if structs.IsKind(err, structs.KindNotFound) {
		r.Name = c.String("node")
		c.Printf("No node with the ID %s is registered. It will not be able to register.\n", r.Name)
		return nil
	}
	if err != nil {
		return err
	}

	r.Name = id
	s, _, err := nodes.FenceStatus(ctx, c.API, id, nil)
	if err != nil {
		return err
	}

	c.Printf("The servers close their connections with node %s (%s) and take no others.\n",
		s.Name, show.ShortID(id))
	c.Printf("Its tasks go on until its lease ends. Then it counts as lost, and its allocations are replaced.\n")
	c.Printf("It has %s. What becomes of its volumes is on_node_loss of their plugins.\n",
		show.Plural(len(s.Claims), "claim"))
	return nil
}

// listRevocations shows what is revoked, and which nodes have joined again with another key.
func listRevocations(ctx context.Context, c *command.Call) error {
	all, _, err := operator.Revocations(ctx, c.API, nil)
	if err != nil {
		return err
	}

	return c.Show(all, func() error {
		var rows command.Grid
		for _, r := range all {
			again := ""
			if len(r.NewKeyHash) > 0 {
				again = "yes"
			}
			rows.AddRow(r.ID, show.Time(time.Unix(0, r.Time)), again, r.Operator, r.Reason)
		}
		c.Table("ID|Time|Joined again|Operator|Reason", rows)
		return nil
	})
}
