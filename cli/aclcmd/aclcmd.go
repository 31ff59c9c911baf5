// Package aclcmd has the commands on access control: the first token, policies, roles, tokens, auth methods
// and binding rules.
package aclcmd

import (
	"context"
	"strings"

	"berth/api/acls"
	"berth/cli/command"
	"berth/structs/access"
)

// Commands are the verbs of berth acl.
var Commands = []command.Command{
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

	t, err := acls.Bootstrap(ctx, c.API, secret)
	if err != nil {
		return err
	}
	PrintToken(c, t)
	return c.WriteOutcome(t)
}

// PrintToken shows a token, with its secret if it is known.
func PrintToken(c *command.Call, t *access.OpenToken) {
	secret := t.SecretID
	if secret == "" {
		secret = "not stored; only the answer that makes a token has it"
	}
	expires := "never"
	if t.ExpireTime != 0 {
		expires = command.FormatTime(unixTime(t.ExpireTime))
	}

	c.Pairs(
		"Accessor ID", t.AccessorID,
		"Secret ID", secret,
		"Name", t.Name,
		"Type", t.Type,
		"Auth method", t.AuthMethod,
		"Created", command.FormatTime(unixTime(t.CreateTime)),
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
