package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"berth/api"
	"berth/structs"
)

// evalCommands are the verbs of berth eval.
var evalCommands = []Command{
	{
		Name:     "list",
		Synopsis: "List evaluations, the newest first",
		Renders:  true,
		Flags: append([]Flag{
			{Name: "job", Kind: String, Value: "id", Usage: "List the evaluations of one job"},
			{Name: "status", Kind: String, Value: "status", Usage: "List those with this status, such as pending"},
			verboseFlag,
		}, pageFlags...),
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
		Flags: []Flag{
			{Name: "monitor", Usage: "Watch the evaluation until it ends or is blocked"},
			watchTimeout,
			verboseFlag,
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
Evaluations that have ended are deleted after a time ("berth system gc": at
once). This deletes chosen ones. One that has not ended, or that allocations
name, is refused; -filter passes over it. -filter takes the expressions of
lists, for example 'Status == "failed"', and sees one namespace.`,
		Acts: true,
		Flags: []Flag{
			{
				Name:  "filter",
				Kind:  String,
				Value: "expression",
				Usage: "Delete the evaluations that match",
			},
		},
		Run: evalDelete,
		Examples: "berth eval delete 3fe7f397\n" +
			`berth eval delete -filter 'JobID == "web" and Status == "failed"'`,
	},
}

func evalList(ctx context.Context, c *Call) error {
	q := c.page()
	q.Sort = structs.SortCreate
	q.Reverse = true
	filter := api.EvalFilter{JobID: c.String("job"), Status: c.String("status")}
	evals, meta, err := c.API.EvaluationsOf(ctx, filter, q)
	err = c.checkFound(ctx, len(evals), err)
	if err != nil {
		return err
	}
	return c.show(evals, func() error {
		evalSheet.print(c, "evaluation", evals)
		c.printNextPage(meta)
		return nil
	})
}

func evalStatusRun(ctx context.Context, c *Call) error {
	if !c.Bool("monitor") {
		return evalStatus.run(ctx, c)
	}
	if c.Arg(0) == "" {
		return badUsage("-monitor needs an evaluation: it watches one")
	}
	id, err := c.resolve(ctx, "eval", c.Arg(0))
	if err != nil {
		return err
	}
	w := newWatch(c)
	return w.withTimeout(ctx, func(ctx context.Context) error {
		return w.retryOutage(ctx, func(ctx context.Context) error {
			return w.awaitPlacement(ctx, id, false)
		})
	})
}

var evalStatus = status[*structs.Evaluation, structs.Evaluation]{
	kind:  "eval",
	sheet: evalSheet,
	list:  (*api.Client).Evaluations,
	get:   (*api.Client).Evaluation,
	print: printEval,
}

var evalSheet = sheet[*structs.Evaluation]{
	titles: "ID|Priority|Triggered By|Job|Status|All Placed|Created",
	row: func(c *Call, e *structs.Evaluation) []string {
		return []string{
			c.id(e.ID),
			fmt.Sprint(e.Priority),
			e.TriggeredBy,
			e.JobID,
			e.Status,
			yesNo(len(e.FailedTGAllocs) == 0),
			age(e.CreateTime),
		}
	},
	order: newestEvalFirst,
}

func evalDelete(ctx context.Context, c *Call) error {
	which := api.EvalDelete{Filter: c.String("filter")}
	if (len(c.Args) == 0) == (which.Filter == "") {
		return badUsage("expected either evaluations or -filter")
	}
	for _, prefix := range c.Args {
		id, err := c.resolve(ctx, "eval", prefix)
		if err != nil {
			return err
		}
		which.EvalIDs = append(which.EvalIDs, id)
	}
	n := 0
	err := newWatch(c).await(ctx, "the servers, which delete the evaluations", seeServers, func() (err error) {
		n, err = c.API.EvaluationsDelete(ctx, which)
		return err
	})
	err = c.checkFound(ctx, n, err)
	if err != nil {
		return err
	}
	return c.report(changed{"Count": strconv.Itoa(n)}, "Deleted %s", plural(n, "evaluation"))
}

func newestEvalFirst(a, b *structs.Evaluation) int {
	return cmp.Compare(b.CreateIndex, a.CreateIndex)
}

func printEval(ctx context.Context, c *Call, e *structs.Evaluation) error {
	c.pairs(
		"ID", e.ID,
		"Job", e.JobID,
		"Type", e.Type,
		"Priority", fmt.Sprint(e.Priority),
		"Triggered by", e.TriggeredBy,
		"Node", c.id(e.NodeID),
		"Deployment", c.id(e.DeploymentID),
		"Status", withDescription(e.Status, e.StatusDescription),
		"Wait until", formatNanos(e.WaitUntil),
		"Waits for", strings.Join(e.BlockedOn, ", "),
		"Before it", c.id(e.PreviousEval),
		"After it", c.id(e.NextEval),
		"Rest waits in", c.id(e.BlockedEval),
		"Created", formatNanos(e.CreateTime),
		"Modified", formatNanos(e.ModifyTime),
	)
	if len(e.FailedTGAllocs) > 0 {
		c.Printf("\nNot placed\n")
		printFailures(c, e)
	}
	if e.Status == structs.EvalPending {
		err := printPaused(ctx, c)
		if err != nil {
			return err
		}
	}
	allocs, _, err := c.API.EvalAllocations(ctx, e.ID, nil)
	if err != nil {
		return err
	}
	if len(allocs) > 0 {
		jobAllocSheet.section(c, "Allocations", allocs)
	}
	return nil
}
