package job

import (
	"berth/api/jobs"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
)

// ScalingCommands are the verbs of berth scaling.
var ScalingCommands = []command.Command{{
	Name:     "policy",
	Synopsis: "Show the scaling policies of jobs",
	Sub: []command.Command{
		{
			Name:     "list",
			Synopsis: "List the scaling policies of jobs that are not stopped",
			Renders:  true,
			Flags: []command.Flag{
				{Name: "job", Kind: command.String, Value: "id", Usage: "List only the policies of the job"},
				{Name: "type", Kind: command.String, Value: "type",
					Usage: "List only the policies of the type"},
			},
			Run: scalingPolicyList,
			Examples: "berth scaling policy list\n" +
				"berth scaling policy list -job web",
		},
		{
			Name:     "info",
			Args:     "<policy>",
			Synopsis: "Show a scaling policy",
			Renders:  true,
			Run:      scalingPolicyInfo,
			Examples: "berth scaling policy info 3fe7f397",
		},
	},
}}

var scalingSheet = command.Sheet[*structs.ScalingPolicyListStub]{
	Titles: "ID|Enabled|Type|Target",
	Row: func(c *command.Call, p *structs.ScalingPolicyListStub) []string {
		return []string{c.ID(p.ID), show.YesNo(p.Enabled), p.Type, command.ScalingTarget(p.Target)}
	},
	Order: func(a, b *structs.ScalingPolicyListStub) int {
		return cmp.Or(
			cmp.Compare(command.ScalingTarget(a.Target), command.ScalingTarget(b.Target)),
			cmp.Compare(a.ID, b.ID))
	},
}

// scalingPolicyList asks for all policies, and selects by the job and the type here.
func scalingPolicyList(ctx context.Context, c *command.Call) error {
	job := c.String("job")
	kind := c.String("type")
	all, _, err := jobs.ListScalingPolicies(ctx, c.API, nil)
	err = c.CheckFound(ctx, len(all), err)
	if err != nil {
		return err
	}

	all = slices.DeleteFunc(all, func(p *structs.ScalingPolicyListStub) bool {
		return job != "" && p.Target["Job"] != job || kind != "" && p.Type != kind
	})

	return scalingSheet.List(c, "scaling policy", all)
}

// scalingPolicyInfo shows one policy. The ID may be a prefix.
func scalingPolicyInfo(ctx context.Context, c *command.Call) error {
	id, err := c.Resolve(ctx, "policy", c.Arg(0))
	if err != nil {
		return err
	}

	p, _, err := jobs.GetScalingPolicy(ctx, c.API, id, nil)
	if err != nil {
		return err
	}

	return c.Show(p, func() error {
		c.Pairs(
			"ID", p.ID,
			"Enabled", show.YesNo(p.Enabled == nil || *p.Enabled),
			"Type", p.Type,
			"Target", command.ScalingTarget(p.Target),
			"Min", scalingBoundText(p.Min),
			"Max", scalingBoundText(p.Max),
		)

		text, err := json.MarshalIndent(p.Policy, "", "  ")
		if err != nil || len(p.Policy) == 0 {
			return err
		}

		c.Printf("\nPolicy\n%s\n", text)
		return nil
	})
}

func scalingBoundText(bound *int64) string {
	if bound == nil {
		return "none"
	}
	return fmt.Sprint(*bound)
}
