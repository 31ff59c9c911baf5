package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"berth/api"
	"berth/structs"
)

// whyPause is the least time between two explanations of a wait. Most waits end before the first.
const whyPause = 2 * time.Second

// Bounds on one explanation of a wait: its causes, the allocations of a job whose checks are read, and the
// jobs of a node.
const (
	mostCauses  = 3
	mostChecked = 3
	mostDrained = 3
)

// explainTime bounds one explanation of a wait that goes on.
const explainTime = 2 * time.Second

// lastWords bounds the explanation of a wait whose time is over.
const lastWords = 5 * time.Second

// waiting is the thing that a watch waits for, and its last explanation.
type waiting struct {
	noun      string // job, volume or node; "": not known yet, or step is set
	namespace string
	id        string
	step      string          // the next step of a wait for something else
	jobs      []named         // those that a node waits for
	next      time.Time       // of the explanation
	causes    map[string]bool // of the last one
}

// named is the name of a job or a volume.
type named struct{ namespace, id string }

// waitFor tells a watch what it waits for.
func (w *watch) waitFor(noun, namespace, id string) {
	w.waits.noun = noun
	w.waits.namespace = cmp.Or(namespace, w.c.namespace())
	w.waits.id = id
}

// explainSometimes explains the wait if it has lasted for whyPause since the last explanation. A node that
// does not answer with its checks holds the watch up for explainTime at most.
func (w *watch) explainSometimes(ctx context.Context) {
	if time.Now().Before(w.waits.next) {
		return
	}
	limited, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	w.explain(limited)
	w.waits.next = time.Now().Add(whyPause)
}

// explain writes the causes of the wait that it has not just written, as "job why" and "volume why" tell
// them. It ignores errors, because the next read of the watch reports them.
func (w *watch) explain(ctx context.Context) {
	one := named{w.waits.namespace, w.waits.id}
	switch w.waits.noun {
	case "job":
		w.explainJobs(ctx, one)
	case "node":
		shown := w.waits.jobs[:min(len(w.waits.jobs), mostDrained)]
		w.explainJobs(ctx, shown...)
		if rest := len(w.waits.jobs) - len(shown); rest > 0 {
			w.writeChange("jobs", "  and %s: %s", plural(rest, "more job"), w.whyCommand())
		}
	case "volume":
		causes, waits := causesOf(ctx, w.api.VolumeWhy, one)
		if waits {
			w.writeCauses(causes)
		}
	}
}

// explainJobs writes the causes for which jobs wait, and their failing checks.
func (w *watch) explainJobs(ctx context.Context, jobs ...named) {
	var all []*structs.Reason
	var waiting []named
	for _, j := range jobs {
		causes, waits := causesOf(ctx, w.api.JobWhy, j)
		if waits {
			all = append(all, causes...)
			waiting = append(waiting, j)
		}
	}
	if len(waiting) == 0 {
		return
	}
	w.writeCauses(all)
	for _, j := range waiting {
		w.explainChecks(ctx, j)
	}
}

// readWhy reads why a job or a volume waits.
type readWhy func(context.Context, string, *api.Query) (*structs.WhyResponse, *structs.QueryMeta, error)

// causesOf returns the causes for which a job or a volume waits, and whether it does.
func causesOf(ctx context.Context, read readWhy, of named) (causes []*structs.Reason, waits bool) {
	why, _, err := read(ctx, of.id, &api.Query{Namespace: of.namespace})
	if err != nil || !why.Waits {
		return nil, false
	}
	return structs.Causes(why.Reasons), true
}

// writeCauses writes the causes that are not among the last ones, with their remedies.
func (w *watch) writeCauses(causes []*structs.Reason) {
	rest := max(0, len(causes)-mostCauses)
	current := map[string]bool{}
	for _, r := range causes[:len(causes)-rest] {
		current[r.Same()] = true
		if w.waits.causes[r.Same()] {
			continue
		}
		w.writeLine("  waits: %s", oneLine(r.Text))
		if r.Remedy != "" {
			w.writeLine("    -> %s", oneLine(r.Remedy))
		}
	}
	if rest > 0 {
		w.writeChange("causes", "  and %s more: %s", plural(rest, "reason"), w.whyCommand())
	}
	w.waits.causes = current
}

// explainChecks writes the failing checks of the first allocations of a job that run and are not healthy.
func (w *watch) explainChecks(ctx context.Context, job named) {
	allocs, _, err := w.api.JobAllocations(ctx, job.id, false, &api.Query{Namespace: job.namespace})
	if err != nil {
		return
	}
	allocs = slices.DeleteFunc(allocs, func(a *structs.AllocListStub) bool {
		return a.ClientStatus != structs.AllocRunning || a.DesiredStatus != structs.AllocDesiredRun ||
			a.DeploymentStatus.IsHealthy()
	})
	for _, a := range allocs[:min(len(allocs), mostChecked)] {
		checks, _ := badChecks(ctx, w.c, a.ID) // the watch goes on without them
		for _, check := range checks {
			w.writeChange("check "+a.ID+check.ID, "  check %q of service %q on allocation %s: %s", check.Check,
				check.Service, w.c.id(a.ID), withDescription(check.Status, oneLine(check.Output)))
		}
	}
}

// badChecks returns the checks of an allocation that have failed or warn, in the order of their names.
func badChecks(ctx context.Context, c *Call, allocID string) (bad []*structs.CheckResult, err error) {
	checks, err := c.API.AllocChecks(ctx, allocID)
	if err != nil {
		return nil, err
	}
	for _, check := range checks {
		if check.Status == structs.CheckFailing || check.Status == structs.CheckWarning {
			bad = append(bad, check)
		}
	}
	slices.SortFunc(bad, func(a, b *structs.CheckResult) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Check, b.Check), cmp.Compare(a.ID, b.ID))
	})
	return bad, nil
}

// explainAtLast explains a wait whose time is over. The context of the wait has ended.
func (w *watch) explainAtLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	w.waits.causes = nil // the reader may not have seen those before
	w.explain(ctx)
}
