// Package access has the commands on access control: tokens with their policies and roles, auth methods and
// logins, variables and their locks, quotas, and the rules of admission.
package access

import (
	"context"
	"strings"

	accessapi "berth/api/access"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs/access"
)

// ACLCommands are the verbs of berth acl.
var ACLCommands = []command.Command{
	{
		Name:     "bootstrap",
		Args:     "[file]",
		Synopsis: "Make the first management token",
		Help: `
The token may do everything, and its secret is shown only here. The file has
the secret that the token gets, a UUID; "-" is the standard input. Without a
file the servers draw one.

The command works once. If all management tokens are lost, run it again: its
error names the file on the server that leads in which you allow it.`,
		Acts:     true,
		Flags:    []command.Flag{command.NoColorFlag},
		Run:      bootstrap,
		Examples: "berth acl bootstrap",
	},
	{
		Name:     "mode",
		Args:     "[off|log|enforce]",
		Synopsis: "Show or set the mode of access control of the whole cluster",
		Help: `
Without an argument the command shows the mode of the cluster, and that of the
server that answers, whose configuration may be stricter.

The configuration of a server only tightens the mode: the cluster keeps the
strictest one that it has seen since the first token was made, also on servers
without an acl block. To loosen it, change the acl block of all servers first.
Then root sets the mode here, at the operator socket of the server that leads.`,
		Flags:    []command.Flag{command.NoColorFlag},
		Acts:     true,
		Run:      runMode,
		Examples: "berth acl mode\nsudo berth acl mode log",
	},
	{
		Name:     "auth-method",
		Synopsis: "Write, show and delete auth methods: ways to log in",
		Sub:      methodCommands,
	},
	{
		Name:     "binding-rule",
		Synopsis: "Write, show and delete the rules that give logins their rights",
		Sub:      ruleCommands,
	},
	{
		Name:     "policy",
		Synopsis: "Write, show and delete access policies",
		Sub:      policyCommands,
	},
	{
		Name:     "role",
		Synopsis: "Write, show and delete roles: names for several policies",
		Sub:      roleCommands,
	},
	{
		Name:     "token",
		Synopsis: "Make, show, change and delete tokens",
		Sub:      tokenCommands,
	},
}

func bootstrap(ctx context.Context, c *command.Call) error {
	secret := ""
	if c.Arg(0) != "" {
		text, err := c.ReadFile(c.Arg(0))
		if err != nil {
			return err
		}
		secret = strings.TrimSpace(string(text))
	}

	t, err := accessapi.Bootstrap(ctx, c.API, secret)
	if err != nil {
		return err
	}
	PrintToken(c, t)
	return c.WriteOutcome(t)
}

func runMode(ctx context.Context, c *command.Call) error {
	to := c.Arg(0)
	if to != "" {
		err := accessapi.SetMode(ctx, c.API, to)
		if err != nil {
			return err
		}
		c.Printf("The mode of access control of the cluster is %s.\n", to)
		return c.WriteOutcome(&accessapi.Mode{Mode: to})
	}

	m, err := accessapi.ReadMode(ctx, c.API)
	if err != nil {
		return err
	}
	c.Pairs("Cluster", m.Mode, "Server "+m.Server, m.Here)
	return c.WriteOutcome(m)
}

// PrintToken shows a token, with its secret if it is known.
func PrintToken(c *command.Call, t *access.OpenToken) {
	secret := t.SecretID
	if secret == "" {
		secret = "not stored; only the answer that makes a token has it"
	}
	expires := "never"
	if t.ExpireTime != 0 {
		expires = show.Time(unixTime(t.ExpireTime))
	}

	c.Pairs(
		"Accessor ID", t.AccessorID,
		"Secret ID", secret,
		"Name", t.Name,
		"Type", t.Type,
		"Auth method", t.AuthMethod,
		"Created", show.Time(unixTime(t.CreateTime)),
		"Expires", expires,
		"Policies", policiesOf(&t.Token),
		"Roles", rolesOf(&t.Token),
	)
}

func policiesOf(t *access.Token) string {
	if t.Type == access.TypeManagement {
		return "all (management)"
	}
	return strings.Join(t.Policies, ", ")
}

func rolesOf(t *access.Token) string {
	names := []string{}
	for _, r := range t.Roles {
		names = append(names, r.Name)
	}
	return strings.Join(names, ", ")
}
