package cli

import (
	"cmp"
	"context"
	"fmt"

	"berth/api"
	"berth/structs"
)

// deploymentCommands are the verbs of berth deployment.
var deploymentCommands = []Command{
	{
		Name:     "list",
		Synopsis: "List deployments, the newest first",
		Renders:  true,
		Flags:    append([]Flag{verboseFlag}, pageFlags...),
		Run:      deploymentList,
		Examples: "berth deployment list\n" +
			"berth deployment list -filter Status==running",
	},
	{
		Name:     "status",
		Args:     "[deployment]",
		Synopsis: "List deployments, or show one with its allocations",
		Renders:  true,
		Flags: []Flag{
			{Name: "monitor", Usage: "Watch the deployment until it ends or waits for an operator"},
			watchTimeout,
			verboseFlag,
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
		Flags: append([]Flag{
			{Name: "group", Kind: Strings, Value: "name", Usage: "Promote only this group; may be repeated"},
		}, detachFlags...),
		Run: func(ctx context.Context, c *Call) error {
			return changeDeployment(ctx, c, func(id string) (*structs.DeploymentUpdateResponse, error) {
				return c.API.DeploymentPromote(ctx, id, c.Strings("group"))
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
		Flags: detachFlags,
		Run: func(ctx context.Context, c *Call) error {
			return changeDeployment(ctx, c, func(id string) (*structs.DeploymentUpdateResponse, error) {
				return c.API.DeploymentFail(ctx, id)
			})
		},
		Examples: "berth deployment fail 3fe7f397",
	},
	deploymentPause("pause", "Stop a deployment until it is resumed", true),
	deploymentPause("resume", "Let a paused deployment go on", false),
	{
		Name:     "unblock",
		Args:     "<deployment>",
		Synopsis: "Unblock a deployment of several regions",
		Acts:     true,
		Flags:    detachFlags,
		Run: func(ctx context.Context, c *Call) error {
			return changeDeployment(ctx, c, func(id string) (*structs.DeploymentUpdateResponse, error) {
				return c.API.DeploymentUnblock(ctx, id)
			})
		},
		Examples: "berth deployment unblock 3fe7f397",
	},
}

func deploymentList(ctx context.Context, c *Call) error {
	q := c.page()
	q.Sort = structs.SortCreate
	q.Reverse = true
	items, meta, err := c.API.Deployments(ctx, q)
	err = c.checkFound(ctx, len(items), err)
	if err != nil {
		return err
	}
	return c.show(items, func() error {
		deploymentSheet.print(c, "deployment", items)
		c.printNextPage(meta)
		return nil
	})
}

func deploymentPause(name, synopsis string, pause bool) Command {
	return Command{
		Name:     name,
		Args:     "<deployment>",
		Synopsis: synopsis,
		Acts:     true,
		Flags:    detachFlags,
		Run: func(ctx context.Context, c *Call) error {
			return changeDeployment(ctx, c, func(id string) (*structs.DeploymentUpdateResponse, error) {
				return c.API.DeploymentPause(ctx, id, pause)
			})
		},
		Examples: "berth deployment " + name + " 3fe7f397",
	}
}

// changeDeployment changes the deployment that the argument names, and watches it.
func changeDeployment(
	ctx context.Context, c *Call, change func(id string) (*structs.DeploymentUpdateResponse, error),
) error {
	id, err := c.resolve(ctx, "deployment", c.Arg(0))
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
	ctx context.Context, c *Call, answer *structs.DeploymentUpdateResponse, id string,
) error {
	return newWatch(c).follow(ctx, answer, answer.EvalID, func(ctx context.Context, w *watch) error {
		d, _, err := w.api.Deployment(ctx, id, nil)
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

func deploymentStatusRun(ctx context.Context, c *Call) error {
	if !c.Bool("monitor") {
		return deploymentStatus.run(ctx, c)
	}
	if c.Arg(0) == "" {
		return badUsage("-monitor needs a deployment: it watches one")
	}
	id, err := c.resolve(ctx, "deployment", c.Arg(0))
	if err != nil {
		return err
	}
	w := newWatch(c)
	return w.withTimeout(ctx, func(ctx context.Context) error {
		return w.retryOutage(ctx, func(ctx context.Context) error {
			d, _, err := c.API.Deployment(ctx, id, nil)
			if err != nil {
				return err
			}
			_, err = awaitDeployment(ctx, w, d)
			return err
		})
	})
}

var deploymentStatus = status[*structs.Deployment, structs.Deployment]{
	kind:  "deployment",
	sheet: deploymentSheet,
	list:  (*api.Client).Deployments,
	get:   (*api.Client).Deployment,
	print: printDeployment,
}

var deploymentSheet = sheet[*structs.Deployment]{
	titles: "ID|Job|Version|Status|Description",
	row: func(c *Call, d *structs.Deployment) []string {
		return []string{
			c.id(d.ID),
			d.JobID,
			fmt.Sprint(d.JobVersion),
			d.Status,
			d.StatusDescription,
		}
	},
	order: func(a, b *structs.Deployment) int {
		return cmp.Compare(b.CreateIndex, a.CreateIndex)
	},
}

func printDeployment(ctx context.Context, c *Call, d *structs.Deployment) error {
	c.pairs(
		"ID", d.ID,
		"Job", d.JobID,
		"Job version", fmt.Sprint(d.JobVersion),
		"Status", d.Status,
		"Description", d.StatusDescription,
		"Created", formatNanos(d.CreateTime),
		"Modified", formatNanos(d.ModifyTime),
	)
	allocs, _, err := c.API.DeploymentAllocations(ctx, d.ID, nil)
	if err != nil {
		return err
	}
	printRollout(c, d, allocs)
	jobAllocSheet.section(c, "Allocations", allocs)
	return nil
}

// printRollout writes the groups of a deployment with these allocations.
func printRollout(c *Call, d *structs.Deployment, allocs []*structs.AllocListStub) {
	healthy := healthyCanaries(allocs)
	var rows grid
	for name, s := range sorted(d.TaskGroups) {
		canaries := ""
		promoted := ""
		if s.DesiredCanaries > 0 {
			canaries = fmt.Sprint(s.DesiredCanaries)
			promoted = yesNo(s.Promoted)
		}
		rows.addRow(
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
	c.section("Rollout", "Group|Desired|Placed|Healthy|Unhealthy|Canaries|Promoted|Progress until", rows)
}

// progressUntil returns the time at which a deployment fails without progress of a group. It is "" if the
// group has reached its aim or waits for a promotion, because it then fails at no time.
func progressUntil(d *structs.Deployment, s *structs.DeploymentState, healthyCanaries int) string {
	if !d.Active() || s.RequireProgressBy.IsZero() || s.Waits(healthyCanaries) {
		return ""
	}
	return formatNanos(s.RequireProgressBy.UnixNano())
}

// jobDeploymentsRun lists the deployments of a job.
func jobDeploymentsRun(ctx context.Context, c *Call) error {
	id, err := c.resolve(ctx, "job", c.Arg(0))
	if err != nil {
		return err
	}
	if c.Bool("latest") {
		return jobLatestDeployment(ctx, c, id)
	}
	items, _, err := c.API.JobDeployments(ctx, id, c.Bool("all"), nil)
	if err != nil {
		return err
	}
	return deploymentSheet.list(c, "deployment", items)
}

// jobLatestDeployment shows the newest deployment of a job.
func jobLatestDeployment(ctx context.Context, c *Call, id string) error {
	d, _, err := c.API.JobDeployment(ctx, id, nil)
	switch {
	case err != nil:
		return err
	case d == nil:
		return structs.NotFoundf("job %q has no deployment", id)
	}
	return c.show(d, func() error {
		return printDeployment(ctx, c, d)
	})
}

// jobPromote promotes the canaries of the newest deployment of a job.
func jobPromote(ctx context.Context, c *Call) error {
	id, err := c.resolve(ctx, "job", c.Arg(0))
	if err != nil {
		return err
	}
	d, _, err := c.API.JobDeployment(ctx, id, nil)
	if err != nil {
		return err
	}
	if d == nil {
		return structs.NotFoundf("job %q has no deployment", id)
	}
	answer, err := c.API.DeploymentPromote(ctx, d.ID, c.Strings("group"))
	if err != nil {
		return err
	}
	return followDeployment(ctx, c, answer, d.ID)
}

// printLatestDeployment writes the newest deployment of a job, if it has one.
func printLatestDeployment(ctx context.Context, c *Call, id string) error {
	d, _, err := c.API.JobDeployment(ctx, id, nil)
	if err != nil || d == nil {
		return err
	}
	c.Printf("\nDeployment %s of version %d: %s\n", c.id(d.ID), d.JobVersion,
		withDescription(d.Status, d.StatusDescription))
	allocs, _, err := c.API.DeploymentAllocations(ctx, d.ID, nil)
	if err != nil {
		return err
	}
	printRollout(c, d, allocs)
	return nil
}
