package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/structs"
)

var jobRevertCommand = Command{
	Name:     "revert",
	Args:     "<job> <version>",
	Synopsis: "Make an earlier version of a job the newest one",
	Help: `
The earlier version is registered again as a new version. "berth job history"
lists the versions.`,
	Acts: true,
	Flags: append([]Flag{{
		Name:  "prior-version",
		Kind:  Number,
		Value: "number",
		Usage: "Revert only if this is the current version",
	}}, detachFlags...),
	Run: jobRevert,
	Examples: "berth job revert web 3\n" +
		"berth job revert -prior-version 5 web 3",
}

func jobRevert(ctx context.Context, c *Call) error {
	id := c.Arg(0)
	version, err := strconv.ParseUint(c.Arg(1), 10, 64)
	if err != nil {
		return badUsage("<version> is %q, expected a whole number", c.Arg(1))
	}
	var prior *uint64
	if c.Given("prior-version") {
		prior = new(uint64(c.Number("prior-version")))
	}
	answer, err := c.API.JobRevert(ctx, id, version, prior)
	if err != nil {
		return c.didYouMean(ctx, "job", id, err)
	}
	return c.followJob(ctx, id, answer, fmt.Sprintf("is reverted to version %d", version))
}

var jobScaleCommand = Command{
	Name:     "scale",
	Args:     "<job> <group-or-count> [count]",
	Synopsis: "Change the count of a group",
	Help: `
Registers the job with another count. The group may be left out if the job has
one group.`,
	Acts:  true,
	Flags: detachFlags,
	Run:   jobScale,
	Examples: "berth job scale web 5\n" +
		"berth job scale web app 5",
}

func jobScale(ctx context.Context, c *Call) error {
	id := c.Arg(0)
	group := c.Arg(1)
	count := c.Arg(2)
	if count == "" {
		count = group
		group = ""
	}
	n, err := strconv.ParseUint(count, 10, 31)
	if err != nil {
		return badUsage("the count is %q, expected a whole number", count)
	}
	if group == "" {
		job, _, err := c.API.Job(ctx, id, nil)
		if err != nil {
			return c.didYouMean(ctx, "job", id, err)
		}
		if len(job.TaskGroups) != 1 {
			return badUsage("job %q has %d groups; name one", id, len(job.TaskGroups))
		}
		group = job.TaskGroups[0].Name
	}
	answer, err := c.API.JobScale(ctx, id, group, int64(n))
	if err != nil {
		return c.didYouMean(ctx, "job", id, err)
	}
	return c.followJob(ctx, id, answer, fmt.Sprintf("has the count %d in group %q", n, group))
}

// followJob follows a job after a change until it runs.
func (c *Call) followJob(
	ctx context.Context, id string, answer *structs.JobRegisterResponse, change string,
) error {
	return c.follow(ctx, answer, answer.EvalID, func(ctx context.Context, w *watch) error {
		w.writeChange("request", "Job %q %s", id, change)
		job, _, err := c.API.Job(ctx, id, nil)
		if err != nil || job.StartsOthers() {
			return err
		}
		return w.awaitJob(ctx, job, answer.EvalID)
	})
}

var jobEvalCommand = Command{
	Name:     "eval",
	Args:     "<job>",
	Synopsis: "Make the servers compare a job with its allocations",
	Acts:     true,
	Flags: append([]Flag{{
		Name:  "force-reschedule",
		Usage: "Replace failed allocations at once, also beyond the attempts of their policy",
	}}, detachFlags...),
	Run: func(ctx context.Context, c *Call) error {
		id := c.Arg(0)
		answer, err := c.API.JobEvaluate(ctx, id, c.Bool("force-reschedule"))
		if err != nil {
			return c.didYouMean(ctx, "job", id, err)
		}
		return c.follow(ctx, answer, answer.EvalID, func(ctx context.Context, w *watch) error {
			_, err := w.awaitEvaluation(ctx, answer.EvalID)
			return err
		})
	},
	Examples: "berth job eval web\n" +
		"berth job eval -force-reschedule web",
}

var jobAllocsCommand = Command{
	Name:     "allocs",
	Args:     "<job>",
	Synopsis: "List the allocations of a job",
	Renders:  true,
	Run: func(ctx context.Context, c *Call) error {
		id, err := c.resolve(ctx, "job", c.Arg(0))
		if err != nil {
			return err
		}
		allocs, _, err := c.API.JobAllocations(ctx, id, nil)
		if err != nil {
			return err
		}
		return c.show(allocs, func() error {
			jobAllocSheet.section(c, "Allocations", allocs)
			return nil
		})
	},
	Examples: "berth job allocs web",
}

var jobRestartCommand = Command{
	Name:     "restart",
	Args:     "<job>",
	Synopsis: "Restart the running tasks of a job, batch by batch",
	Help: `
Restarts the tasks of the running allocations, a batch of them at a time. With
-reschedule the allocations are stopped instead, and others take their places,
also on other nodes: the next batch follows when the successors run.`,
	Acts: true,
	Flags: []Flag{
		{Name: "batch-size", Kind: Number, Value: "number", Default: "1", Usage: "Allocations of one batch"},
		{Name: "batch-wait", Kind: Duration, Value: "duration", Default: "0s", Usage: "Between two batches"},
		{Name: "group", Kind: Strings, Value: "name", Usage: "Only this group; may be repeated"},
		{Name: "task", Kind: String, Value: "name", Usage: "Only this task"},
		{Name: "all-tasks", Usage: "Also the tasks that have ended, in the order of their lifecycles"},
		{Name: "reschedule", Usage: "Replace the allocations"},
		{Name: "on-error", Kind: String, Value: "action", Default: "fail", Usage: "fail or continue after a fault"},
		{Name: "timeout", Kind: Duration, Value: "duration", Default: "5m", Usage: "How long to await a successor"},
	},
	Run: jobRestart,
	Examples: "berth job restart web\n" +
		"berth job restart -batch-size 2 -batch-wait 30s -group app web\n" +
		"berth job restart -reschedule web",
}

func jobRestart(ctx context.Context, c *Call) error {
	err := c.checkRestart()
	if err != nil {
		return err
	}
	id := c.Arg(0)
	_, _, err = c.API.Job(ctx, id, nil)
	if err != nil {
		return c.didYouMean(ctx, "job", id, err)
	}
	allocs, _, err := c.API.JobAllocations(ctx, id, nil)
	if err != nil {
		return err
	}
	groups := c.Strings("group")
	allocs = slices.DeleteFunc(allocs, func(a *structs.AllocListStub) bool {
		return a.ClientStatus != structs.AllocRunning || a.DesiredStatus != structs.AllocDesiredRun ||
			len(groups) > 0 && !slices.Contains(groups, a.TaskGroup)
	})
	slices.SortFunc(allocs, func(a, b *structs.AllocListStub) int { return strings.Compare(a.Name, b.Name) })
	size := int(c.Number("batch-size"))
	failed := 0
	for batch := range slices.Chunk(allocs, size) {
		for _, a := range batch {
			err := c.restartOne(ctx, a)
			switch {
			case err == nil:
			case c.String("on-error") == "fail":
				return err
			default:
				failed++
				fmt.Fprintf(c.Err, "Error: allocation %s: %v\n", shortID(a.ID), err)
			}
		}
		last := batch[len(batch)-1] == allocs[len(allocs)-1]
		if !last && !backoff.Sleep(ctx, c.Duration("batch-wait")) {
			return ctx.Err()
		}
	}
	if failed > 0 {
		return structs.Preconditionf("%s of %d could not be restarted", plural(failed, "allocation"), len(allocs))
	}
	return c.report(changed{"JobID": id, "Allocations": fmt.Sprint(len(allocs))},
		"Job %q: %s restarted", id, plural(len(allocs), "allocation"))
}

func (c *Call) checkRestart() error {
	switch {
	case c.Number("batch-size") < 1:
		return badUsage("the option -batch-size is 0, expected at least 1")
	case c.String("on-error") != "fail" && c.String("on-error") != "continue":
		return badUsage("the option -on-error is %q, expected fail or continue", c.String("on-error"))
	case c.Bool("reschedule") && (c.Bool("all-tasks") || c.String("task") != ""):
		return badUsage("-reschedule replaces whole allocations; it excludes -task and -all-tasks")
	case c.Bool("all-tasks") && c.String("task") != "":
		return badUsage("expected either -task or -all-tasks")
	}
	return nil
}

func (c *Call) restartOne(ctx context.Context, a *structs.AllocListStub) error {
	if !c.Bool("reschedule") {
		c.Printf("Restarting allocation %s (%s)\n", shortID(a.ID), a.Name)
		return c.API.AllocRestart(ctx, a.ID, api.AllocRestartRequest{
			TaskName: c.String("task"),
			AllTasks: c.Bool("all-tasks"),
		})
	}
	c.Printf("Replacing allocation %s (%s)\n", shortID(a.ID), a.Name)
	_, err := c.API.AllocStop(ctx, a.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Duration("timeout"))
	defer cancel()
	return c.awaitSuccessor(ctx, a.ID)
}

// awaitSuccessor returns when the allocation that replaces another one runs.
func (c *Call) awaitSuccessor(ctx context.Context, id string) error {
	for {
		a, _, err := c.API.Allocation(ctx, id, nil)
		if err != nil {
			return err
		}
		switch next := a.NextAllocation; {
		case next != "" && id != next && a.ServerTerminal():
			id = next
			continue
		case a.ServerTerminal():
		case a.ClientStatus == structs.AllocRunning:
			return nil
		case a.ClientTerminal():
			return structs.Preconditionf("its successor %s is %s", shortID(a.ID), a.ClientStatus)
		}
		if !backoff.Sleep(ctx, successorInterval) {
			return structs.Errorf(structs.KindTimeout, "no successor runs yet")
		}
	}
}

// successorInterval is the time between two looks for a successor.
const successorInterval = 500 * time.Millisecond
