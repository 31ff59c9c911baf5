package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/structs"
)

// evalCommands are the verbs of berth eval.
func evalCommands() []Command {
	return []Command{
		{Name: "status", Args: "[eval]",
			Synopsis: "List evaluations, or show one with its failed placements", Renders: true,
			Run:      evalStatus,
			Examples: []string{"berth eval status", "berth eval status 3fe7f397"}},
	}
}

func evalStatus(ctx context.Context, c *Call) error {
	if c.Arg(0) == "" {
		evals, _, err := c.API().Evaluations(ctx, nil)
		if err != nil {
			return err
		}
		return evalSheet.list(c, "evaluations", evals)
	}
	return lookup[structs.Evaluation]{c.evalID, c.API().Evaluation, printEval}.show(ctx, c)
}

var evalSheet = sheet[*structs.Evaluation]{
	titles: []string{"ID", "Priority", "Triggered By", "Job", "Status", "All Placed", "Created"},
	row: func(e *structs.Evaluation) []string {
		return []string{
			structs.ShortID(e.ID),
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

func newestEvalFirst(a, b *structs.Evaluation) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) }

func printEval(ctx context.Context, c *Call, e *structs.Evaluation) error {
	c.pairs(
		[2]string{"ID", e.ID},
		[2]string{"Job", e.JobID},
		[2]string{"Type", e.Type},
		[2]string{"Priority", fmt.Sprint(e.Priority)},
		[2]string{"Triggered by", e.TriggeredBy},
		[2]string{"Node", structs.ShortID(e.NodeID)},
		[2]string{"Status", described(e.Status, e.StatusDescription)},
		[2]string{"Wait until", formatNanos(e.WaitUntil)},
		[2]string{"Waits for", strings.Join(e.BlockedOn, ", ")},
		[2]string{"Before it", structs.ShortID(e.PreviousEval)},
		[2]string{"After it", structs.ShortID(e.NextEval)},
		[2]string{"Rest waits in", structs.ShortID(e.BlockedEval)},
		[2]string{"Created", formatNanos(e.CreateTime)},
		[2]string{"Modified", formatNanos(e.ModifyTime)},
	)
	if len(e.FailedTGAllocs) > 0 {
		c.Printf("\nNot placed\n%s", describeFailures(e.FailedTGAllocs, e.QueuedAllocations))
	}
	allocs, _, err := c.API().EvalAllocations(ctx, e.ID, nil)
	if err != nil {
		return err
	}
	if len(allocs) > 0 {
		jobAllocSheet.section(c, "Allocations", allocs)
	}
	return nil
}

// describeFailures describes for each group which filter rejected how many nodes and why.
func describeFailures(failed map[string]*structs.AllocMetric, queued map[string]int) string {
	var b strings.Builder
	for _, group := range slices.Sorted(maps.Keys(failed)) {
		m := failed[group]
		n := max(queued[group], m.CoalescedFailures+1)
		fmt.Fprintf(&b, "  Group %q: %s cannot be placed (%s evaluated)\n", group, plural(n, "allocation"),
			plural(m.NodesEvaluated, "node"))
		for _, line := range failureLines(m) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	return b.String()
}

// failureLines has a line for each filter that rejected nodes for one group.
func failureLines(m *structs.AllocMetric) []string {
	var lines []string
	for _, r := range m.Refusals {
		nodes := ""
		if r.Nodes > 0 {
			nodes = plural(r.Nodes, "node") + " "
		}
		lines = append(lines, fmt.Sprintf("%srefused by %s: %s", nodes, r.Filter, oneLine(r.Reason)))
	}
	if lines != nil {
		return lines
	}
	for _, reason := range slices.Sorted(maps.Keys(m.ConstraintFiltered)) {
		lines = append(lines, fmt.Sprintf("%s refused: %s", plural(m.ConstraintFiltered[reason], "node"), reason))
	}
	for _, dimension := range slices.Sorted(maps.Keys(m.DimensionExhausted)) {
		nodes := plural(m.DimensionExhausted[dimension], "node")
		lines = append(lines, fmt.Sprintf("%s without enough %s", nodes, dimension))
	}
	if lines == nil && m.NodesEvaluated == 0 {
		lines = append(lines, "there is no eligible node")
	}
	return lines
}
