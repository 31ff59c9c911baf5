package access

import (
	"context"

	accessapi "berth/api/access"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs/access"
)

var ruleCommands = []command.Command{
	{
		Name:     "create",
		Synopsis: "Create a rule that gives the tokens of logins their rights",
		Help: `
Without a selector the rule is for every login with the method. A selector is
an expression over value.NAME and list.NAME, which the configuration of the
method maps claims to. -bind-name may have ${value.NAME}.`,
		Acts:  true,
		Flags: append([]command.Flag{methodFlag}, ruleFlags...),
		Run: func(ctx context.Context, c *command.Call) error {
			if c.String("auth-method") == "" || c.String("bind-type") == "" {
				return command.BadUsage("-auth-method and -bind-type are needed")
			}
			return putRule(ctx, c, changedRule(c, &access.BindingRule{AuthMethod: c.String("auth-method")}))
		},
		Examples: "berth acl binding-rule create -auth-method corp -bind-type management\n" +
			"berth acl binding-rule create -auth-method ci -bind-type role -bind-name ops",
	},
	{
		Name:     "update",
		Args:     "<id>",
		Synopsis: "Change a binding rule",
		Help: `
Options that are not given leave their part as it is.`,
		Acts:  true,
		Flags: ruleFlags,
		Run: func(ctx context.Context, c *command.Call) error {
			r, err := accessapi.BindingRule(ctx, c.API, c.Arg(0))
			if err != nil {
				return err
			}
			return putRule(ctx, c, changedRule(c, r))
		},
		Examples: "berth acl binding-rule update -bind-name on-call d4f2c1e0",
	},
	{
		Name:     "delete",
		Args:     "<id>",
		Synopsis: "Delete a binding rule",
		Help: `
Tokens of earlier logins keep the rights that the rule gave them until their
ends.`,
		Acts: true,
		Run: func(ctx context.Context, c *command.Call) error {
			err := accessapi.DeleteBindingRule(ctx, c.API, c.Arg(0))
			if err != nil {
				return err
			}
			return c.Report(command.Changed{"ID": c.Arg(0)}, "Binding rule %s is deleted", c.Arg(0))
		},
		Examples: "berth acl binding-rule delete d4f2c1e0",
	},
	{
		Name:     "info",
		Args:     "<id>",
		Synopsis: "Show a binding rule",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			r, err := accessapi.BindingRule(ctx, c.API, c.Arg(0))
			if err != nil {
				return err
			}
			return c.Show(r, func() error {
				printRule(c, r)
				return nil
			})
		},
		Examples: "berth acl binding-rule info d4f2c1e0",
	},
	{
		Name:     "list",
		Synopsis: "List the binding rules",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			all, _, err := accessapi.BindingRules(ctx, c.API, nil)
			if err != nil {
				return err
			}
			return ruleSheet.List(c, "binding rule", all)
		},
		Examples: "berth acl binding-rule list",
	},
}

var methodFlag = command.Flag{
	Name:  "auth-method",
	Kind:  command.String,
	Value: "name",
	Usage: "The auth method of the logins",
}

var ruleFlags = []command.Flag{
	{Name: "description", Kind: command.String, Value: "text", Usage: "The description"},
	{Name: "selector", Kind: command.String, Value: "expression", Usage: "The logins for which the rule is"},
	{
		Name:  "bind-type",
		Kind:  command.String,
		Value: "role|policy|management",
		Usage: "A role, a policy or everything",
	},
	{Name: "bind-name", Kind: command.String, Value: "name", Usage: "The role or the policy"},
	command.NoColorFlag,
}

var ruleSheet = command.Sheet[*access.BindingRuleStub]{
	Titles: "ID|Auth method|Description",
	Row: func(_ *command.Call, r *access.BindingRuleStub) []string {
		return []string{r.ID, r.AuthMethod, r.Description}
	},
}

// changedRule sets the parts that options give.
func changedRule(c *command.Call, r *access.BindingRule) *access.BindingRule {
	if c.Given("description") {
		r.Description = c.String("description")
	}
	if c.Given("selector") {
		r.Selector = c.String("selector")
	}
	if c.Given("bind-type") {
		r.BindType = c.String("bind-type")
		if r.BindType == access.BindManagement {
			r.BindName = ""
		}
	}
	if c.Given("bind-name") {
		r.BindName = c.String("bind-name")
	}
	return r
}

func putRule(ctx context.Context, c *command.Call, r *access.BindingRule) error {
	stored, err := accessapi.PutBindingRule(ctx, c.API, r)
	if err != nil {
		return err
	}
	printRule(c, stored)
	return c.WriteOutcome(stored)
}

func printRule(c *command.Call, r *access.BindingRule) {
	c.Pairs(
		"ID", r.ID,
		"Description", r.Description,
		"Auth method", r.AuthMethod,
		"Selector", r.Selector,
		"Bind type", r.BindType,
		"Bind name", r.BindName,
		"Changed", show.Time(unixTime(int64(r.ModifyTime))),
	)
}
