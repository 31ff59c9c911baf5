package job

import (
	"cmp"
	"context"
	"fmt"

	"berth/api/jobs"
	"berth/api/show"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// DeploymentCommands are the verbs of berth deployment.
var DeploymentCommands = []command.Command{
	{
		Name:     "list",
		Synopsis: "List deployments, the newest first",
		Renders:  true,
		Flags:    append([]command.Flag{command.VerboseFlag}, command.PageFlags...),
		Run:      deploymentList,
		Examples: "berth deployment list\n" +
			"berth deployment list -filter Status==running",
	},
	{
		Name:     "status",
		Args:     "[deployment]",
		Synopsis: "List deployments, or show one with its allocations",
		Renders:  true,
		Flags: []command.Flag{
			{Name: "monitor", Usage: "Watch the deployment until it ends or waits for an operator"},
			command.WatchTimeout,
			command.VerboseFlag,
		},
		Run: deploymentStatusRun,
		Examples: "berth deployment status\n" +
			"berth deployment status 3fe7f397\n" +
			"berth deployment status -monitor 3fe7f397",
	},
	{
		Name:     "promote",
		Args:     "<deployment>",
		Synopsis: "Let the canaries of a deployment replace the old allocations",
		Acts:     true,
		Flags: append([]command.Flag{
			{
				Name:  "group",
				Kind:  command.Strings,
				Value: "name",
				Usage: "Promote only this group; may be repeated",
			},
		}, command.DetachFlags...),
		Run: func(ctx context.Context, c *command.Call) error {
			return changeDeployment(ctx, c, func(id string) (*structs.DeploymentUpdateResponse, error) {
				return jobs.PromoteDeployment(ctx, c.API, id, c.Strings("group"))
			})
		},
		Examples: "berth deployment promote 3fe7f397\n" +
			"berth deployment promote -group web 3fe7f397",
	},
	{
		Name:     "fail",
		Args:     "<deployment>",
		Synopsis: "End a deployment as failed",
		Help: `
The deployment places nothing more. If auto_revert is set, the job goes back
to its newest stable version.`,
		Acts:  true,
		Flags: command.DetachFlags,
		Run: func(ctx context.Context, c *command.Call) error {
			return changeDeployment(ctx, c, func(id string) (*structs.DeploymentUpdateResponse, error) {
				return jobs.FailDeployment(ctx, c.API, id)
			})
		},
		Examples: "berth deployment fail 3fe7f397",
	},
	deploymentPause("pause", "Pause a deployment until it is resumed", true),
	deploymentPause("resume", "Continue a paused deployment", false),
	{
		Name:     "unblock",
		Args:     "<deployment>",
		Synopsis: "Unblock a deployment of several regions",
		Acts:     true,
		Flags:    command.DetachFlags,
		Run: func(ctx context.Context, c *command.Call) error {
			return changeDeployment(ctx, c, func(id string) (*structs.DeploymentUpdateResponse, error) {
				return jobs.UnblockDeployment(ctx, c.API, id)
			})
		},
		Examples: "berth deployment unblock 3fe7f397",
	},
}

// deploymentList shows the newest deployments first.
func deploymentList(ctx context.Context, c *command.Call) error {
	q := c.Page()
	q.Sort = structs.SortCreate
	q.Reverse = true
	items, meta, err := jobs.ListDeployments(ctx, c.API, q)
	err = c.CheckFound(ctx, len(items), err)
	if err != nil {
		return err
	}

	return c.Show(items, func() error {
		deploymentSheet.Print(c, "deployment", items)
		c.PrintNextPage(meta)
		return nil
	})
}

func deploymentPause(name, synopsis string, pause bool) command.Command {
	return command.Command{
		Name:     name,
		Args:     "<deployment>",
		Synopsis: synopsis,
		Acts:     true,
		Flags:    command.DetachFlags,
		Run: func(ctx context.Context, c *command.Call) error {
			return changeDeployment(ctx, c, func(id string) (*structs.DeploymentUpdateResponse, error) {
				return jobs.PauseDeployment(ctx, c.API, id, pause)
			})
		},
		Examples: "berth deployment " + name + " 3fe7f397",
	}
}

// changeDeployment changes the deployment that the argument names, and watches it.
func changeDeployment(
	ctx context.Context, c *command.Call, change func(id string) (*structs.DeploymentUpdateResponse, error),
) error {
	id, err := c.Resolve(ctx, "deployment", c.Arg(0))
	if err != nil {
		return err
	}

	answer, err := change(id)
	if err != nil {
		return err
	}

	return followDeployment(ctx, c, answer, id)
}

// followDeployment writes the outcome of a change and watches the deployment, unless it was to end.
func followDeployment(
	ctx context.Context, c *command.Call, answer *structs.DeploymentUpdateResponse, id string,
) error {
	return watch.New(c).Follow(ctx, answer, answer.EvalID, func(ctx context.Context, w *watch.Watch) error {
		d, _, err := jobs.GetDeployment(ctx, w.API, id, nil)
		if err != nil {
			return err
		}
		reportDeployment(w, d)
		if d.Status != structs.DeploymentRunning {
			writeDeploymentStep(w, d)
			return nil
		}
		_, err = awaitDeployment(ctx, w, d)
		return err
	})
}

// deploymentStatusRun shows one deployment, or lists all. With -monitor it waits until one ends, or does
// nothing without an operator.
func deploymentStatusRun(ctx context.Context, c *command.Call) error {
	if !c.Bool("monitor") {
		return deploymentStatus.Run(ctx, c)
	}

	if c.Arg(0) == "" {
		return command.BadUsage("-monitor needs a deployment: it watches one")
	}

	id, err := c.Resolve(ctx, "deployment", c.Arg(0))
	if err != nil {
		return err
	}

	w := watch.New(c)
	return w.WithTimeout(ctx, func(ctx context.Context) error {
		return w.RetryOutage(ctx, func(ctx context.Context) error {
			d, _, err := jobs.GetDeployment(ctx, c.API, id, nil)
			if err != nil {
				return err
			}

			_, err = awaitDeployment(ctx, w, d)
			return err
		})
	})
}

var deploymentStatus = command.Status[*structs.Deployment, structs.Deployment]{
	Kind:  "deployment",
	Sheet: deploymentSheet,
	List:  jobs.ListDeployments,
	Get:   jobs.GetDeployment,
	Print: printDeployment,
}

var deploymentSheet = command.SheetOf(show.Deployments, "ID|Job|Version|Status|Description",
	func(a, b *structs.Deployment) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })

func printDeployment(ctx context.Context, c *command.Call, d *structs.Deployment) error {
	c.Pairs(
		"ID", d.ID,
		"Job", d.JobID,
		"Job version", fmt.Sprint(d.JobVersion),
		"Status", d.Status,
		"Description", d.StatusDescription,
		"Created", show.Nanos(d.CreateTime),
		"Modified", show.Nanos(d.ModifyTime),
	)
	allocs, _, err := jobs.ListDeploymentAllocations(ctx, c.API, d.ID, nil)
	if err != nil {
		return err
	}

	printRollout(c, d, allocs)
	alloc.SheetOfJob.Section(c, "Allocations", allocs)
	return nil
}

// printRollout writes the groups of a deployment with these allocations.
func printRollout(c *command.Call, d *structs.Deployment, allocs []*structs.AllocListStub) {
	healthy := healthyCanaries(allocs)
	var rows command.Grid
	for name, s := range show.Sorted(d.TaskGroups) {
		canaries := ""
		promoted := ""
		if s.DesiredCanaries > 0 {
			canaries = fmt.Sprint(s.DesiredCanaries)
			promoted = show.YesNo(s.Promoted)
		}

		rows.AddRow(
			name,
			fmt.Sprint(s.DesiredTotal),
			fmt.Sprint(s.PlacedAllocs),
			fmt.Sprint(s.HealthyAllocs),
			fmt.Sprint(s.UnhealthyAllocs),
			canaries,
			promoted,
			progressUntil(d, s, healthy[name]),
		)
	}

	c.Section("Rollout", "Group|Desired|Placed|Healthy|Unhealthy|Canaries|Promoted|Progress until", rows)
}

// progressUntil returns the time at which a deployment fails without progress of a group. It is "" if the
// group has reached its aim or waits for a promotion, because it then fails at no time.
func progressUntil(d *structs.Deployment, s *structs.DeploymentState, healthyCanaries int) string {
	if !d.Active() || s.RequireProgressBy.IsZero() || s.Waits(healthyCanaries) {
		return ""
	}
	return show.Nanos(s.RequireProgressBy.UnixNano())
}

// listDeployments lists the deployments of a job.
func listDeployments(ctx context.Context, c *command.Call) error {
	id, err := c.Resolve(ctx, "job", c.Arg(0))
	if err != nil {
		return err
	}

	if c.Bool("latest") {
		return jobLatestDeployment(ctx, c, id)
	}

	items, _, err := jobs.DeploymentsOf(ctx, c.API, id, c.Bool("all"), nil)
	if err != nil {
		return err
	}

	return deploymentSheet.List(c, "deployment", items)
}

// jobLatestDeployment shows the newest deployment of a job.
func jobLatestDeployment(ctx context.Context, c *command.Call, id string) error {
	d, _, err := jobs.LatestDeployment(ctx, c.API, id, nil)
	switch {
	case err != nil:
		return err
	case d == nil:
		return structs.NotFoundf("job %q has no deployment", id)
	}

	return c.Show(d, func() error {
		return printDeployment(ctx, c, d)
	})
}

// promoteDeployment promotes the canaries of the newest deployment of a job.
func promoteDeployment(ctx context.Context, c *command.Call) error {
	id, err := c.Resolve(ctx, "job", c.Arg(0))
	if err != nil {
		return err
	}

	d, _, err := jobs.LatestDeployment(ctx, c.API, id, nil)
	if err != nil {
		return err
	}

	if d == nil {
		return structs.NotFoundf("job %q has no deployment", id)
	}

	answer, err := jobs.PromoteDeployment(ctx, c.API, d.ID, c.Strings("group"))
	if err != nil {
		return err
	}

	return followDeployment(ctx, c, answer, d.ID)
}

// printLatestDeployment writes the newest deployment of a job, if it has one.
func printLatestDeployment(ctx context.Context, c *command.Call, id string) error {
	d, _, err := jobs.LatestDeployment(ctx, c.API, id, nil)
	if err != nil || d == nil {
		return err
	}

	c.Printf("\nDeployment %s of version %d: %s\n", c.ID(d.ID), d.JobVersion,
		show.WithDescription(d.Status, d.StatusDescription))
	allocs, _, err := jobs.ListDeploymentAllocations(ctx, c.API, d.ID, nil)
	if err != nil {
		return err
	}

	printRollout(c, d, allocs)
	return nil
}
