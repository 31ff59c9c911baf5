package watch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"berth/api"
	"berth/api/jobs"
	"berth/api/operator"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
)

// AwaitEvaluation follows an evaluation until it has ended or is blocked.
func (w *Watch) AwaitEvaluation(ctx context.Context, id string) (*structs.Evaluation, error) {
	q := &api.Query{MaxWait: ReadWait}
	for {
		e, meta, err := jobs.GetEvaluation(ctx, w.API, id, q)
		if err != nil {
			return nil, err
		}

		text := show.WithDescription(e.Status, e.StatusDescription)
		if due := time.Unix(0, e.WaitUntil); e.Status == structs.EvalPending && due.After(show.Now()) {
			text += ", due at " + due.Local().Format(time.RFC3339)
		}

		w.WaitFor("job", e.Namespace, e.JobID)
		w.WriteChange("eval", "Evaluation %s is %s", w.Call.ID(id), text)
		if e.Terminal() || e.Status == structs.EvalBlocked {
			return e, nil
		}

		if q.MinIndex > 0 {
			text, err := PausedText(ctx, w.API)
			if err != nil {
				return nil, err
			}

			if text != "" {
				w.WriteChange("paused", "%s", text)
			}
		}

		err = w.AwaitChange(ctx, q, meta)
		if err != nil {
			return nil, err
		}
	}
}

// AwaitPlacement follows an evaluation and explains the allocations that it could not place. Such an
// allocation is an error unless wait is set.
func (w *Watch) AwaitPlacement(ctx context.Context, evalID string, wait bool) error {
	e, err := w.AwaitEvaluation(ctx, evalID)
	if err != nil {
		return err
	}

	if e.Status == structs.EvalFailed || e.Status == structs.EvalCancelled {
		return structs.Internalf("the evaluation ended as %s",
			show.WithDescription(e.Status, e.StatusDescription))
	}

	w.NextEval = e.NextEval
	if len(e.FailedTGAllocs) == 0 {
		return nil
	}

	w.WriteLine("Some allocations cannot be placed now:")
	PrintFailures(w.Call, e)
	if e.BlockedEval != "" {
		w.WriteLine("Evaluation %s is blocked and places the rest when capacity is free",
			w.Call.ID(e.BlockedEval))
	}

	if wait {
		return nil
	}

	return structs.Preconditionf("job %q is registered but not completely placed", e.JobID)
}

// PrintFailures writes for each group which filter rejected how many nodes and why, the same text once.
func PrintFailures(c *command.Call, e *structs.Evaluation) {
	first := map[string]string{} // the group with the text
	for group, m := range show.Sorted(e.FailedTGAllocs) {
		n := max(e.QueuedAllocations[group], m.CoalescedFailures+1)
		c.Printf("  Group %q: %s cannot be placed (%s evaluated)\n",
			group,
			show.Plural(n, "allocation"),
			show.Plural(m.NodesEvaluated, "node"))
		text := strings.Join(failureLines(m), "\n    ")
		if earlier := first[text]; earlier != "" {
			text = fmt.Sprintf("as group %q", earlier)
		} else {
			first[text] = group
		}
		c.Printf("    %s\n", text)
	}
}

// failureLines has a line for each filter that rejected nodes for one group.
func failureLines(m *structs.AllocMetric) []string {
	var lines []string
	for _, r := range m.Rejections {
		nodes := ""
		if r.Nodes > 0 {
			nodes = show.Plural(r.Nodes, "node") + " "
		}

		lines = append(lines, fmt.Sprintf("%srejected by %s: %s",
			nodes, r.Filter, show.OneLine(r.Reason)))
	}

	if lines != nil {
		return lines
	}

	for reason, n := range show.Sorted(m.ConstraintFiltered) {
		lines = append(lines, fmt.Sprintf("%s rejected: %s",
			show.Plural(n, "node"), reason))
	}

	for dimension, n := range show.Sorted(m.DimensionExhausted) {
		lines = append(lines, fmt.Sprintf("%s without enough %s",
			show.Plural(n, "node"), dimension))
	}

	if lines == nil && m.NodesEvaluated == 0 {
		lines = append(lines, "there is no eligible node")
	}

	return lines
}

// PausedText says that evaluations are paused, "" if they are not: it is why a pending one stays so.
func PausedText(ctx context.Context, client *api.Client) (string, error) {
	config, _, err := operator.GetSchedulerConfig(ctx, client, nil)
	if err != nil || !config.PauseEvalBroker {
		return "", err
	}
	return "An operator has paused all evaluations: " +
		"\"berth operator scheduler set-config -pause-eval-broker=false\" continues them", nil
}

// PrintPaused writes PausedText, if any.
func PrintPaused(ctx context.Context, c *command.Call) error {
	text, err := PausedText(ctx, c.API)
	if text != "" {
		c.Printf("\n%s\n", text)
	}
	return err
}
