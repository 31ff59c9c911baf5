package job

import (
	"context"
	"fmt"
	"strconv"

	"berth/api/jobs"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

var jobRevertCommand = command.Command{
	Name:     "revert",
	Args:     "<job> <version-or-tag>",
	Synopsis: "Make an earlier version of a job the newest one",
	Help: `
The earlier version is registered again as a new version. "berth job history"
lists the versions. A number is always that of a version, also if a tag has
this name.`,
	Acts: true,
	Flags: append([]command.Flag{{
		Name:  "prior-version",
		Kind:  command.Number,
		Value: "number",
		Usage: "Revert only if this is the current version",
	}, consulToken, waitFlag}, command.DetachFlags...),
	Run: jobRevert,
	Examples: "berth job revert web 3\n" +
		"berth job revert web golden\n" +
		"berth job revert -prior-version 5 web 3",
}

// jobRevert registers an earlier version again, and waits as jobRun does.
func jobRevert(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	version, err := taggedVersion(ctx, c, id, c.Arg(1))
	if err != nil {
		return c.DidYouMean(ctx, "job", id, err)
	}

	var prior *uint64
	if c.Given("prior-version") {
		prior = new(uint64(c.Number("prior-version")))
	}

	answer, err := jobs.Revert(ctx, c.API, id, version, jobs.RevertOptions{
		PriorVersion: prior,
		ConsulToken:  givenConsulToken(c),
	})
	if err != nil {
		return c.DidYouMean(ctx, "job", id, err)
	}

	return followJob(ctx, c, answer, fmt.Sprintf("is reverted to version %d", version))
}

var jobScaleCommand = command.Command{
	Name:     "scale",
	Args:     "<job> <group-or-count> [count]",
	Synopsis: "Change the count of a group",
	Help: `
Registers the job with another count. The group may be left out if the job has
one group.`,
	Acts:  true,
	Flags: append([]command.Flag{waitFlag}, command.DetachFlags...),
	Run:   jobScale,
	Examples: "berth job scale web 5\n" +
		"berth job scale web app 5",
}

// jobScale changes the count of a group, and waits as jobRun does. The count is the last argument, so the
// group may be left out if the job has one.
func jobScale(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	group := c.Arg(1)
	count := c.Arg(2)
	if count == "" {
		count = group
		group = ""
	}

	n, err := strconv.ParseUint(count, 10, 31)
	if err != nil {
		return command.BadUsage("the count is %q, expected a whole number", count)
	}

	if group == "" {
		job, _, err := jobs.Get(ctx, c.API, id, nil)
		if err != nil {
			return c.DidYouMean(ctx, "job", id, err)
		}

		if len(job.TaskGroups) != 1 {
			return command.BadUsage("job %q has %d groups; name one", id, len(job.TaskGroups))
		}

		group = job.TaskGroups[0].Name
	}

	answer, err := jobs.Scale(ctx, c.API, id, group, structs.ScalingEvent{
		Count:   new(int64(n)),
		Message: "submitted with berth job scale",
	})
	if err != nil {
		return c.DidYouMean(ctx, "job", id, err)
	}

	return followJob(ctx, c, answer, fmt.Sprintf("has the count %d in group %q", n, group))
}

// followJob follows the job that the first argument names until it runs after a change.
func followJob(
	ctx context.Context, c *command.Call, answer *structs.JobRegisterResponse, change string,
) error {
	id := c.Arg(0)
	return watch.New(c).Follow(ctx, answer, answer.EvalID, func(ctx context.Context, w *watch.Watch) error {
		w.WriteChange("request", "Job %q %s", id, change)
		job, _, err := jobs.Get(ctx, c.API, id, nil)
		if err != nil || job.StartsOthers() {
			return err
		}
		return awaitJob(ctx, w, job, answer.EvalID)
	})
}

var jobEvalCommand = command.Command{
	Name:     "eval",
	Args:     "<job>",
	Synopsis: "Make the servers evaluate a job again",
	Acts:     true,
	Flags: append([]command.Flag{{
		Name:  "force-reschedule",
		Usage: "Replace failed allocations at once, even beyond the attempts of their reschedule policy",
	}}, command.DetachFlags...),
	Run: func(ctx context.Context, c *command.Call) error {
		id := c.Arg(0)
		answer, err := jobs.Evaluate(ctx, c.API, id, c.Bool("force-reschedule"))
		if err != nil {
			return c.DidYouMean(ctx, "job", id, err)
		}
		w := watch.New(c)
		return w.Follow(ctx, answer, answer.EvalID, func(ctx context.Context, w *watch.Watch) error {
			return w.AwaitPlacement(ctx, answer.EvalID, false)
		})
	},
	Examples: "berth job eval web\n" +
		"berth job eval -force-reschedule web",
}

var jobAllocsCommand = command.Command{
	Name:     "allocs",
	Args:     "<job>",
	Synopsis: "List the allocations of a job",
	Renders:  true,
	Flags: []command.Flag{
		{Name: "all", Usage: "Also list allocations of an earlier job with the same ID"},
		command.VerboseFlag,
	},
	Run: func(ctx context.Context, c *command.Call) error {
		id, err := c.Resolve(ctx, "job", c.Arg(0))
		if err != nil {
			return err
		}
		allocs, _, err := jobs.AllocationsOf(ctx, c.API, id, c.Bool("all"), nil)
		if err != nil {
			return err
		}
		return c.Show(allocs, func() error {
			alloc.SheetOfJob.Section(c, "Allocations", allocs)
			return nil
		})
	},
	Examples: "berth job allocs web",
}
