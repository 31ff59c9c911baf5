package access

import (
	"cmp"
	"context"
	"strings"

	accessapi "berth/api/access"
	"berth/cli/command"
	"berth/jobspec"
	"berth/structs/quota"
)

// QuotaCommands are the verbs of berth quota.
var QuotaCommands = []command.Command{
	{
		Name:     "apply",
		Args:     "<file>",
		Synopsis: "Create or change a quota",
		Help: `
The file has the bounds: HCL (see "berth quota init"), or the JSON of "berth
quota inspect". "-" is the standard input. The file replaces the former
bounds. A bound below the use ends nothing; it only rejects more.

A quota bounds the namespaces that name it, all together:
berth namespace apply -quota QUOTA NAMESPACE`,
		Acts:     true,
		Run:      applyQuota,
		Examples: "berth quota apply team.hcl",
	},
	{
		Name:     "delete",
		Args:     "<quota>",
		Synopsis: "Delete a quota that no namespace names",
		Acts:     true,
		Run: func(ctx context.Context, c *command.Call) error {
			seen, _, err := accessapi.Quota(ctx, c.API, c.Arg(0), nil)
			on, err := c.On(seen, err)
			if err != nil {
				return err
			}
			err = accessapi.DeleteQuota(ctx, on, c.Arg(0))
			if err != nil {
				return c.DidYouMean(ctx, "quota", c.Arg(0), err)
			}
			return c.Report(command.Changed{"Quota": c.Arg(0)}, "Quota %q is deleted", c.Arg(0))
		},
		Examples: "berth quota delete team",
	},
	{
		Name:     "init",
		Args:     "[file]",
		Synopsis: "Write an example of a quota file (quota.hcl)",
		Local:    true,
		Run: func(_ context.Context, c *command.Call) error {
			return c.WriteExample(cmp.Or(c.Arg(0), "quota.hcl"), quotaExample)
		},
		Examples: "berth quota init",
	},
	{
		Name:     "inspect",
		Args:     "<quota>",
		Synopsis: "Show a quota in the JSON of the API",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			s, _, err := accessapi.Quota(ctx, c.API, c.Arg(0), nil)
			if err != nil {
				return c.DidYouMean(ctx, "quota", c.Arg(0), err)
			}
			return c.Show(s, func() error { return command.WriteJSON(c.Out, s) })
		},
		Examples: "berth quota inspect team > team.json",
	},
	{
		Name:     "list",
		Synopsis: "List the quotas that the caller may see",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			all, _, err := accessapi.Quotas(ctx, c.API, nil)
			if err != nil {
				return err
			}
			return quotaSheet.List(c, "quota", all)
		},
		Examples: "berth quota list",
	},
	{
		Name:     "status",
		Args:     "<quota>",
		Synopsis: "Show a quota with the use of its bounds",
		Renders:  true,
		Run:      quotaStatus,
		Examples: "berth quota status team",
	},
}

// quotaExample is the file of berth quota init.
const quotaExample = `name        = "team"
description = "What the namespaces of the team may have together"

limit {
  region = "global"

  # 0, or no value, is no bound. -1 allows nothing.
  region_limit {
    allocations = 100
    cpu         = 20000 # MHz
    memory      = 40000 # MiB that tasks reserve
    memory_max  = 60000 # MiB that tasks may use

    device "nvidia/gpu" {
      count = 2
    }

    storage {
      volumes = 50
      bytes   = "1 TiB"

      plugin "ssd" {
        volumes = 10
        bytes   = "100 GiB"
      }

      class "fast" {
        volumes = 5
      }
    }
  }
}
`

var quotaSheet = command.Sheet[*quota.Spec]{
	Titles: "Name|Description",
	Row: func(_ *command.Call, s *quota.Spec) []string {
		return []string{s.Name, s.Description}
	},
}

func applyQuota(ctx context.Context, c *command.Call) error {
	s, err := command.ReadDefinition(c, accessapi.DecodeQuota, jobspec.ReadQuota, (*quota.Spec).ValidateGiven)
	if err != nil {
		return err
	}

	err = accessapi.PutQuota(ctx, c.API, s)
	if err != nil {
		return err
	}
	return c.Report(command.Changed{"Quota": s.Name}, "Quota %q is applied", s.Name)
}

// quotaStatusAnswer is what berth quota status shows.
type quotaStatusAnswer struct {
	Quota *quota.Spec
	Usage *quota.Usage
}

func quotaStatus(ctx context.Context, c *command.Call) error {
	s, _, err := accessapi.Quota(ctx, c.API, c.Arg(0), nil)
	if err != nil {
		return c.DidYouMean(ctx, "quota", c.Arg(0), err)
	}
	used, _, err := accessapi.QuotaUsage(ctx, c.API, s.Name, nil)
	if err != nil {
		return err
	}

	return c.Show(quotaStatusAnswer{s, used}, func() error {
		c.Pairs(
			"Name", s.Name,
			"Description", s.Description,
			"Namespaces", strings.Join(used.Namespaces, ", "),
		)
		printQuotaFigures(c, s, used)
		return nil
	})
}

// printQuotaFigures shows each bound with its use. A bound may have changed between the two requests: then
// its use is not there.
func printQuotaFigures(c *command.Call, s *quota.Spec, usage *quota.Usage) {
	for _, l := range s.Limits {
		used := usage.Used[l.Key()]
		if used == nil || used.RegionLimit == nil {
			continue
		}

		var rows command.Grid
		for _, f := range quota.Figures(l, used) {
			rows.AddRow(f.Of, f.Used, f.Most)
		}
		if len(rows) > 0 {
			c.Section("Bounds", "Of|Used|Allowed", rows)
		}
	}
}
