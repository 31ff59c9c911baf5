package access

import (
	"context"

	"berth/acl"
	accessapi "berth/api/access"
	"berth/cli/command"
	"berth/structs/access"
)

var policyCommands = []command.Command{
	{
		Name:     "apply",
		Args:     "<name> <file>",
		Synopsis: "Create or replace a policy",
		Help: `
The file has the rules, in HCL or JSON; "-" is the standard input. The command
checks them before it calls an agent. The policy "anonymous" is for requests
without a token.`,
		Acts: true,
		Flags: []command.Flag{
			{Name: "description", Kind: command.String, Value: "text", Usage: "The description"},
			jobFlag("job", "Give the policy to the tasks of this job, by their identities"),
			jobFlag("group", "Only to the tasks of this group of the job"),
			jobFlag("task", "Only to this task of the group"),
		},
		Run: policyApply,
		Examples: "berth acl policy apply team-a team-a.hcl\n" +
			"berth acl policy apply -description \"Team A\" team-a team-a.hcl",
	},
	{
		Name:     "delete",
		Args:     "<name>",
		Synopsis: "Delete a policy",
		Help: `
Tokens and roles that name the policy lose what it gave, at once.`,
		Acts: true,
		Run: func(ctx context.Context, c *command.Call) error {
			seen, err := accessapi.Policy(ctx, c.API, c.Arg(0))
			on, err := c.On(seen, err)
			if err != nil {
				return err
			}
			err = accessapi.DeletePolicy(ctx, on, c.Arg(0))
			if err != nil {
				return err
			}
			return c.Report(command.Changed{"Name": c.Arg(0)}, "Policy %q is deleted", c.Arg(0))
		},
		Examples: "berth acl policy delete team-a",
	},
	{
		Name:     "info",
		Args:     "<name>",
		Synopsis: "Show a policy with its rules",
		Renders:  true,
		Run:      policyInfo,
		Examples: "berth acl policy info team-a",
	},
	{
		Name:     "list",
		Synopsis: "List the policies that the caller may see",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			all, _, err := accessapi.Policies(ctx, c.API, nil)
			if err != nil {
				return err
			}
			return policySheet.List(c, "policy", all)
		},
		Examples: "berth acl policy list",
	},
	{
		Name:     "self",
		Synopsis: "List the policies of the token of the caller",
		Help: `
A management token has no policies, and sees all.`,
		Renders: true,
		Run: func(ctx context.Context, c *command.Call) error {
			all, _, err := accessapi.Policies(ctx, c.API, nil)
			if err != nil {
				return err
			}
			return policySheet.List(c, "policy", all)
		},
		Examples: "berth acl policy self",
	},
}

var policySheet = command.Sheet[*access.PolicyStub]{
	Titles: "Name|Description",
	Row: func(_ *command.Call, p *access.PolicyStub) []string {
		return []string{p.Name, p.Description}
	},
}

func jobFlag(name, usage string) command.Flag {
	return command.Flag{
		Name:  name,
		Kind:  command.String,
		Value: name,
		Usage: usage,
	}
}

func policyApply(ctx context.Context, c *command.Call) error {
	text, err := c.ReadFile(c.Arg(1))
	if err == nil {
		_, err = acl.Parse(command.ShownName(c.Arg(1)), string(text))
	}
	if err != nil {
		return err
	}

	p := &access.Policy{
		Name:        c.Arg(0),
		Description: c.String("description"),
		Rules:       string(text),
	}
	if c.Given("job") {
		p.JobACL = &access.JobACL{
			Namespace: c.Namespace(),
			JobID:     c.String("job"),
			Group:     c.String("group"),
			Task:      c.String("task"),
		}
	} else if c.Given("group") || c.Given("task") {
		return command.BadUsage("-group and -task need -job")
	}

	err = accessapi.PutPolicy(ctx, c.API, p)
	if err != nil {
		return err
	}
	return c.Report(command.Changed{"Name": p.Name}, "Policy %q is stored", p.Name)
}

func policyInfo(ctx context.Context, c *command.Call) error {
	p, err := accessapi.Policy(ctx, c.API, c.Arg(0))
	if err != nil {
		return err
	}
	return c.Show(p, func() error {
		pairs := []string{
			"Name", p.Name,
			"Description", p.Description,
		}
		if p.JobACL != nil {
			pairs = append(pairs,
				"Namespace", p.JobACL.Namespace,
				"Job", p.JobACL.JobID,
				"Group", p.JobACL.Group,
				"Task", p.JobACL.Task,
			)
		}
		c.Pairs(pairs...)
		c.Printf("\n%s\n", p.Rules)
		return nil
	})
}
