package access

import (
	"context"
	"strings"

	accessapi "berth/api/access"
	"berth/cli/command"
	"berth/structs/access"
)

var roleCommands = []command.Command{
	{
		Name:     "create",
		Synopsis: "Create a role",
		Acts:     true,
		Flags:    roleFlags,
		Run: func(ctx context.Context, c *command.Call) error {
			if c.String("name") == "" || len(c.Strings("policy")) == 0 {
				return command.BadUsage("-name and -policy are needed")
			}
			return putRole(ctx, c, changedRole(c, &access.Role{}))
		},
		Examples: "berth acl role create -name on-call -policy read-all -policy detach",
	},
	{
		Name:     "update",
		Args:     "<id>",
		Synopsis: "Change a role",
		Help: `
Options that are not given leave their part as it is. -policy adds policies.
With -no-merge the options are all that the role has afterwards.`,
		Acts:  true,
		Flags: append(roleFlags, noMergeFlag),
		Run:   roleUpdate,
		Examples: "berth acl role update -policy expand d4f2c1e0\n" +
			"berth acl role update -no-merge -name on-call -policy read-all d4f2c1e0",
	},
	{
		Name:     "delete",
		Args:     "<id>",
		Synopsis: "Delete a role",
		Help: `
Tokens that name the role lose what it gave, at once.`,
		Acts: true,
		Run: func(ctx context.Context, c *command.Call) error {
			err := accessapi.DeleteRole(ctx, c.API, c.Arg(0))
			if err != nil {
				return err
			}
			return c.Report(command.Changed{"ID": c.Arg(0)}, "Role %s is deleted", c.Arg(0))
		},
		Examples: "berth acl role delete d4f2c1e0",
	},
	{
		Name:     "info",
		Args:     "<id>",
		Synopsis: "Show a role",
		Renders:  true,
		Flags:    []command.Flag{{Name: "by-name", Usage: "The argument is the name of the role"}},
		Run: func(ctx context.Context, c *command.Call) error {
			read := accessapi.Role
			if c.Bool("by-name") {
				read = accessapi.RoleByName
			}
			r, err := read(ctx, c.API, c.Arg(0))
			if err != nil {
				return err
			}
			return c.Show(r, func() error {
				printRole(c, r)
				return nil
			})
		},
		Examples: "berth acl role info -by-name on-call",
	},
	{
		Name:     "list",
		Synopsis: "List the roles that the caller may see",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			all, _, err := accessapi.Roles(ctx, c.API, nil)
			if err != nil {
				return err
			}
			return roleSheet.List(c, "role", all)
		},
		Examples: "berth acl role list",
	},
}

var roleFlags = []command.Flag{
	{Name: "name", Kind: command.String, Value: "name", Usage: "The name, which no other role has"},
	{Name: "description", Kind: command.String, Value: "text", Usage: "The description"},
	{Name: "policy", Kind: command.Strings, Value: "name", Usage: "A policy of the role; may be repeated"},
	command.NoColorFlag,
}

var noMergeFlag = command.Flag{
	Name:  "no-merge",
	Usage: "Drop what the options do not say",
}

var roleSheet = command.Sheet[*access.Role]{
	Titles: "ID|Name|Description|Policies",
	Row: func(_ *command.Call, r *access.Role) []string {
		return []string{r.ID, r.Name, r.Description, linked(r)}
	},
}

func roleUpdate(ctx context.Context, c *command.Call) error {
	r := &access.Role{ID: c.Arg(0)}
	if !c.Bool("no-merge") {
		former, err := accessapi.Role(ctx, c.API, c.Arg(0))
		if err != nil {
			return err
		}
		r = former
	}
	return putRole(ctx, c, changedRole(c, r))
}

// changedRole sets what the options say.
func changedRole(c *command.Call, r *access.Role) *access.Role {
	if c.Given("name") {
		r.Name = c.String("name")
	}
	if c.Given("description") {
		r.Description = c.String("description")
	}
	for _, name := range c.Strings("policy") {
		r.Policies = append(r.Policies, &access.PolicyLink{Name: name})
	}
	return r
}

func putRole(ctx context.Context, c *command.Call, r *access.Role) error {
	stored, err := accessapi.PutRole(ctx, c.API, r)
	if err != nil {
		return err
	}
	printRole(c, stored)
	return c.WriteOutcome(stored)
}

func printRole(c *command.Call, r *access.Role) {
	c.Pairs(
		"ID", r.ID,
		"Name", r.Name,
		"Description", r.Description,
		"Policies", linked(r),
	)
}

func linked(r *access.Role) string {
	names := []string{}
	for _, p := range r.Policies {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}
