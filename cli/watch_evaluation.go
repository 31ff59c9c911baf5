package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"berth/api"
	"berth/structs"
)

// awaitEvaluation follows an evaluation until it has ended or is blocked.
func (w *watch) awaitEvaluation(ctx context.Context, id string) (*structs.Evaluation, error) {
	q := &api.Query{MaxWait: readWait}
	for {
		e, meta, err := w.api.Evaluation(ctx, id, q)
		if err != nil {
			return nil, err
		}
		text := withDescription(e.Status, e.StatusDescription)
		if due := time.Unix(0, e.WaitUntil); e.Status == structs.EvalPending && due.After(now()) {
			text += ", due at " + due.Local().Format(time.RFC3339)
		}
		w.waitFor("job", e.Namespace, e.JobID)
		w.writeChange("eval", "Evaluation %s is %s", w.c.id(id), text)
		if e.Terminal() || e.Status == structs.EvalBlocked {
			return e, nil
		}
		if q.MinIndex > 0 {
			text, err := pausedText(ctx, w.api)
			if err != nil {
				return nil, err
			}
			if text != "" {
				w.writeChange("paused", "%s", text)
			}
		}
		err = w.awaitChange(ctx, q, meta)
		if err != nil {
			return nil, err
		}
	}
}

// awaitPlacement follows an evaluation and explains the allocations that it could not place. Such an
// allocation is an error unless wait is set.
func (w *watch) awaitPlacement(ctx context.Context, evalID string, wait bool) error {
	e, err := w.awaitEvaluation(ctx, evalID)
	if err != nil {
		return err
	}
	if e.Status == structs.EvalFailed || e.Status == structs.EvalCancelled {
		return structs.Internalf("the evaluation ended as %s",
			withDescription(e.Status, e.StatusDescription))
	}
	w.nextEval = e.NextEval
	if len(e.FailedTGAllocs) == 0 {
		return nil
	}
	w.writeLine("Some allocations cannot be placed now:")
	printFailures(w.c, e)
	if e.BlockedEval != "" {
		w.writeLine("Evaluation %s is blocked and places the rest when capacity is free",
			w.c.id(e.BlockedEval))
	}
	if wait {
		return nil
	}
	return structs.Preconditionf("job %q is registered but not completely placed", e.JobID)
}

// printFailures writes for each group which filter rejected how many nodes and why, the same text once.
func printFailures(c *Call, e *structs.Evaluation) {
	first := map[string]string{} // the group with the text
	for group, m := range sorted(e.FailedTGAllocs) {
		n := max(e.QueuedAllocations[group], m.CoalescedFailures+1)
		c.Printf("  Group %q: %s cannot be placed (%s evaluated)\n",
			group,
			plural(n, "allocation"),
			plural(m.NodesEvaluated, "node"))
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
	for _, r := range m.Refusals {
		nodes := ""
		if r.Nodes > 0 {
			nodes = plural(r.Nodes, "node") + " "
		}
		lines = append(lines, fmt.Sprintf("%srefused by %s: %s",
			nodes, r.Filter, oneLine(r.Reason)))
	}
	if lines != nil {
		return lines
	}
	for reason, n := range sorted(m.ConstraintFiltered) {
		lines = append(lines, fmt.Sprintf("%s refused: %s",
			plural(n, "node"), reason))
	}
	for dimension, n := range sorted(m.DimensionExhausted) {
		lines = append(lines, fmt.Sprintf("%s without enough %s",
			plural(n, "node"), dimension))
	}
	if lines == nil && m.NodesEvaluated == 0 {
		lines = append(lines, "there is no eligible node")
	}
	return lines
}

// pausedText says that evaluations are paused, "" if they are not: it is why a pending one stays so.
func pausedText(ctx context.Context, client *api.Client) (string, error) {
	config, _, err := client.SchedulerConfig(ctx, nil)
	if err != nil || !config.PauseEvalBroker {
		return "", err
	}
	return "An operator has paused all evaluations: " +
		"\"berth operator scheduler set-config -pause-eval-broker=false\" continues them", nil
}

// printPaused writes pausedText, if any.
func printPaused(ctx context.Context, c *Call) error {
	text, err := pausedText(ctx, c.API)
	if text != "" {
		c.Printf("\n%s\n", text)
	}
	return err
}
