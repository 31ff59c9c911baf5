package access

import (
	"context"
	"time"

	accessapi "berth/api/access"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs/access"
)

var tokenCommands = []command.Command{
	{
		Name:     "create",
		Synopsis: "Make a token",
		Help: `
The secret of the token is shown only here: the servers store a hash of it.`,
		Acts: true,
		Flags: append([]command.Flag{
			{
				Name:    "type",
				Kind:    command.String,
				Value:   "client|management",
				Default: access.TypeClient,
				Usage:   "A management token may do everything, and has no policies",
			},
			{
				Name:  "ttl",
				Kind:  command.Duration,
				Value: "duration",
				Usage: "How long the token lives. Default: for ever",
			},
			{Name: "global", Usage: "For tools of the dialect; it has no effect"},
		}, tokenFlags...),
		Run: tokenCreate,
		Examples: "berth acl token create -name ci -policy deploy -ttl 8h\n" +
			"berth acl token create -name duty -role-name on-call",
	},
	{
		Name:     "update",
		Args:     "<accessor>",
		Synopsis: "Change the name, the policies and the roles of a token",
		Help: `
Options that are not given leave their part as it is, and -policy adds
policies. With -no-merge the options are all that the token has afterwards.`,
		Acts:     true,
		Flags:    append(tokenFlags, noMergeFlag),
		Run:      tokenUpdate,
		Examples: "berth acl token update -policy expand d4f2c1e0-6f43-4b0a-9d2e-0d8f5c1b2a3e",
	},
	{
		Name:     "delete",
		Args:     "<accessor>",
		Synopsis: "Delete a token",
		Help: `
Requests, streams and sessions of its holder end within seconds.`,
		Acts: true,
		Run: func(ctx context.Context, c *command.Call) error {
			err := accessapi.DeleteToken(ctx, c.API, c.Arg(0))
			if err != nil {
				return err
			}
			return c.Report(command.Changed{"AccessorID": c.Arg(0)}, "Token %s is deleted", c.Arg(0))
		},
		Examples: "berth acl token delete d4f2c1e0-6f43-4b0a-9d2e-0d8f5c1b2a3e",
	},
	{
		Name:     "info",
		Args:     "<accessor>",
		Synopsis: "Show a token, without its secret",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			t, err := accessapi.Token(ctx, c.API, c.Arg(0))
			if err != nil {
				return err
			}
			return showToken(c, &access.OpenToken{Token: *t})
		},
		Examples: "berth acl token info d4f2c1e0-6f43-4b0a-9d2e-0d8f5c1b2a3e",
	},
	{
		Name:     "list",
		Synopsis: "List the tokens, without their secrets",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			all, _, err := accessapi.Tokens(ctx, c.API, nil)
			if err != nil {
				return err
			}
			return tokenSheet.List(c, "token", all)
		},
		Examples: "berth acl token list",
	},
	{
		Name:     "one-time",
		Synopsis: "Make a one-time token for the token of the caller",
		Help: `
Its secret gives the token once, within ten minutes: a page that asks for a
login gets it in place of the secret of the token.`,
		Acts:  true,
		Flags: []command.Flag{command.NoColorFlag},
		Run: func(ctx context.Context, c *command.Call) error {
			o, err := accessapi.MakeOneTime(ctx, c.API)
			if err != nil {
				return err
			}
			c.Pairs(
				"One-time secret ID", string(o.OneTimeSecretID),
				"Accessor ID", o.AccessorID,
				"Expires", show.Time(o.ExpiresAt),
			)
			return c.WriteOutcome(o)
		},
		Examples: "berth acl token one-time",
	},
	{
		Name:     "self",
		Synopsis: "Show the token of the caller",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			t, err := accessapi.TokenSelf(ctx, c.API)
			if err != nil {
				return err
			}
			return showToken(c, t)
		},
		Examples: "berth acl token self",
	},
}

var tokenFlags = []command.Flag{
	{Name: "name", Kind: command.String, Value: "name", Usage: "A name for people"},
	{Name: "policy", Kind: command.Strings, Value: "name", Usage: "A policy of the token; may be repeated"},
	{Name: "role-id", Kind: command.Strings, Value: "id", Usage: "A role of the token; may be repeated"},
	{Name: "role-name", Kind: command.Strings, Value: "name", Usage: "A role of the token; may be repeated"},
	command.NoColorFlag,
}

var tokenSheet = command.Sheet[*access.Token]{
	Titles: "Accessor ID|Name|Type|Policies|Roles|Expires",
	Row: func(_ *command.Call, t *access.Token) []string {
		expires := ""
		if t.ExpireTime != 0 {
			expires = show.Time(unixTime(t.ExpireTime))
		}
		return []string{t.AccessorID, t.Name, t.Type, policiesOf(t), rolesOf(t), expires}
	},
}

func unixTime(nanos int64) time.Time { return time.Unix(0, nanos) }

func showToken(c *command.Call, t *access.OpenToken) error {
	return c.Show(t, func() error {
		PrintToken(c, t)
		return nil
	})
}

func tokenCreate(ctx context.Context, c *command.Call) error {
	t := changedToken(c, &access.Token{Type: c.String("type"), Global: c.Bool("global")})
	return putToken(ctx, c, t, c.Duration("ttl"))
}

func tokenUpdate(ctx context.Context, c *command.Call) error {
	t := &access.Token{AccessorID: c.Arg(0)}
	if !c.Bool("no-merge") {
		former, err := accessapi.Token(ctx, c.API, c.Arg(0))
		if err != nil {
			return err
		}
		t = former
	}
	return putToken(ctx, c, changedToken(c, t), 0)
}

// changedToken sets what the options say.
func changedToken(c *command.Call, t *access.Token) *access.Token {
	if c.Given("name") {
		t.Name = c.String("name")
	}
	t.Policies = append(t.Policies, c.Strings("policy")...)
	for _, id := range c.Strings("role-id") {
		t.Roles = append(t.Roles, &access.Link{ID: id})
	}
	for _, name := range c.Strings("role-name") {
		t.Roles = append(t.Roles, &access.Link{Name: name})
	}
	return t
}

func putToken(ctx context.Context, c *command.Call, t *access.Token, ttl time.Duration) error {
	stored, err := accessapi.PutToken(ctx, c.API, t, ttl)
	if err != nil {
		return err
	}
	PrintToken(c, stored)
	return c.WriteOutcome(stored)
}
