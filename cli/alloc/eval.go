package alloc

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"berth/api/jobs"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// EvalCommands are the verbs of berth eval.
var EvalCommands = []command.Command{
	{
		Name:     "list",
		Synopsis: "List evaluations, the newest first",
		Renders:  true,
		Flags: append([]command.Flag{
			{Name: "job", Kind: command.String, Value: "id", Usage: "List the evaluations of one job"},
			{
				Name:  "status",
				Kind:  command.String,
				Value: "status",
				Usage: "List the evaluations with this status, such as pending",
			},
			command.VerboseFlag,
		}, command.PageFlags...),
		Run: evalList,
		Examples: "berth eval list -per-page 20\n" +
			"berth eval list -job web -status blocked\n" +
			"berth eval list -filter TriggeredBy==manual",
	},
	{
		Name:     "status",
		Args:     "[eval]",
		Synopsis: "List evaluations, or show one with its failed placements",
		Renders:  true,
		Flags: []command.Flag{
			{Name: "monitor", Usage: "Watch the evaluation until it ends or is blocked"},
			command.WatchTimeout,
			command.VerboseFlag,
		},
		Run: evalStatusRun,
		Examples: "berth eval status\n" +
			"berth eval status 3fe7f397\n" +
			"berth eval status -monitor 3fe7f397",
	},
	{
		Name:     "delete",
		Args:     "[eval]...",
		Synopsis: "Delete evaluations that have ended",
		Help: `
The servers delete ended evaluations after a while, or at once with "berth
system gc". This command deletes chosen ones. It rejects one that has not
ended or that an allocation names; -filter skips these. -filter takes the
expressions of lists, for example 'Status == "failed"', and sees one
namespace.`,
		Acts: true,
		Flags: []command.Flag{
			{
				Name:  "filter",
				Kind:  command.String,
				Value: "expression",
				Usage: "Delete the evaluations that match",
			},
		},
		Run: evalDelete,
		Examples: "berth eval delete 3fe7f397\n" +
			`berth eval delete -filter 'JobID == "web" and Status == "failed"'`,
	},
}

// evalList shows the newest evaluations first.
func evalList(ctx context.Context, c *command.Call) error {
	q := c.Page()
	q.Sort = structs.SortCreate
	q.Reverse = true
	filter := jobs.EvalFilter{JobID: c.String("job"), Status: c.String("status")}
	evals, meta, err := jobs.FilterEvaluations(ctx, c.API, filter, q)
	err = c.CheckFound(ctx, len(evals), err)
	if err != nil {
		return err
	}

	return c.Show(evals, func() error {
		EvalSheet.Print(c, "evaluation", evals)
		c.PrintNextPage(meta)
		return nil
	})
}

// evalStatusRun shows one evaluation, or lists all. With -monitor it waits for the placement of one.
func evalStatusRun(ctx context.Context, c *command.Call) error {
	if !c.Bool("monitor") {
		return evalStatus.Run(ctx, c)
	}

	if c.Arg(0) == "" {
		return command.BadUsage("-monitor needs an evaluation: it watches one")
	}

	id, err := c.Resolve(ctx, "eval", c.Arg(0))
	if err != nil {
		return err
	}

	w := watch.New(c)
	return w.WithTimeout(ctx, func(ctx context.Context) error {
		return w.RetryOutage(ctx, func(ctx context.Context) error {
			return w.AwaitPlacement(ctx, id, false)
		})
	})
}

var evalStatus = command.Status[*structs.Evaluation, structs.Evaluation]{
	Kind:  "eval",
	Sheet: EvalSheet,
	List:  jobs.ListEvaluations,
	Get:   jobs.GetEvaluation,
	Print: printEval,
}

// EvalSheet shows evaluations.
var EvalSheet = command.Sheet[*structs.Evaluation]{
	Titles: "ID|Priority|Triggered By|Job|Status|All Placed|Created",
	Row: func(c *command.Call, e *structs.Evaluation) []string {
		return []string{
			c.ID(e.ID),
			fmt.Sprint(e.Priority),
			e.TriggeredBy,
			e.JobID,
			e.Status,
			show.YesNo(len(e.FailedTGAllocs) == 0),
			show.Age(e.CreateTime),
		}
	},
	Order: NewestEvalFirst,
}

// evalDelete waits for the servers. It deletes nothing if one of the prefixes is ambiguous.
func evalDelete(ctx context.Context, c *command.Call) error {
	which := jobs.EvalDelete{Filter: c.String("filter")}
	if (len(c.Args) == 0) == (which.Filter == "") {
		return command.BadUsage("expected either evaluations or -filter")
	}

	for _, prefix := range c.Args {
		id, err := c.Resolve(ctx, "eval", prefix)
		if err != nil {
			return err
		}

		which.EvalIDs = append(which.EvalIDs, id)
	}

	n := 0
	const servers = "the servers, which delete the evaluations"
	err := watch.New(c).Await(ctx, servers, watch.SeeServers, func() (err error) {
		n, err = jobs.DeleteEvaluations(ctx, c.API, which)
		return err
	})

	err = c.CheckFound(ctx, n, err)
	if err != nil {
		return err
	}

	return c.Report(command.Changed{"Count": strconv.Itoa(n)}, "Deleted %s", show.Plural(n, "evaluation"))
}

// NewestEvalFirst orders evaluations by the time of their creation.
func NewestEvalFirst(a, b *structs.Evaluation) int {
	return cmp.Compare(b.CreateIndex, a.CreateIndex)
}

func printEval(ctx context.Context, c *command.Call, e *structs.Evaluation) error {
	c.Pairs(
		"ID", e.ID,
		"Job", e.JobID,
		"Type", e.Type,
		"Priority", fmt.Sprint(e.Priority),
		"Triggered by", e.TriggeredBy,
		"Node", c.ID(e.NodeID),
		"Deployment", c.ID(e.DeploymentID),
		"Status", show.WithDescription(e.Status, e.StatusDescription),
		"Wait until", show.Nanos(e.WaitUntil),
		"Waits for", strings.Join(e.BlockedOn, ", "),
		"Before it", c.ID(e.PreviousEval),
		"After it", c.ID(e.NextEval),
		"Rest waits in", c.ID(e.BlockedEval),
		"Created", show.Nanos(e.CreateTime),
		"Modified", show.Nanos(e.ModifyTime),
	)

	if len(e.FailedTGAllocs) > 0 {
		c.Printf("\nNot placed\n")
		watch.PrintFailures(c, e)
	}

	if e.Status == structs.EvalPending {
		err := watch.PrintPaused(ctx, c)
		if err != nil {
			return err
		}
	}

	allocs, _, err := jobs.ListEvaluationAllocations(ctx, c.API, e.ID, nil)
	if err != nil {
		return err
	}

	if len(allocs) > 0 {
		SheetOfJob.Section(c, "Allocations", allocs)
	}

	return nil
}
