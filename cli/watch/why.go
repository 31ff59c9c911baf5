package watch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"berth/api"
	"berth/api/allocs"
	"berth/api/jobs"
	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
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

// Waiting is the thing that a watch waits for, and its last explanation.
type Waiting struct {
	noun      string // job, volume or node; "": not known yet, or step is set
	Namespace string
	ID        string
	Step      string          // the next step of a wait for something else
	Jobs      []Named         // a node waits for them
	Next      time.Time       // of the explanation
	causes    map[string]bool // of the last one
}

// Named is the name of a job or a volume.
type Named struct{ Namespace, ID string }

// WaitFor tells a watch what it waits for.
func (w *Watch) WaitFor(noun, namespace, id string) {
	w.Waits.noun = noun
	w.Waits.Namespace = cmp.Or(namespace, w.Call.Namespace())
	w.Waits.ID = id
}

// explainSometimes explains the wait if it has lasted for whyPause since the last explanation. A node that
// does not answer with its checks holds the watch up for explainTime at most.
func (w *Watch) explainSometimes(ctx context.Context) {
	if time.Now().Before(w.Waits.Next) {
		return
	}
	limited, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	w.explain(limited)
	w.Waits.Next = time.Now().Add(whyPause)
}

// explain writes the causes of the wait that it has not just written, as "job why" and "volume why" tell
// them. It ignores errors, because the next read of the watch reports them.
func (w *Watch) explain(ctx context.Context) {
	one := Named{Namespace: w.Waits.Namespace, ID: w.Waits.ID}
	switch w.Waits.noun {
	case "job":
		w.explainJobs(ctx, one)
	case "node":
		shown := w.Waits.Jobs[:min(len(w.Waits.Jobs), mostDrained)]
		w.explainJobs(ctx, shown...)
		if rest := len(w.Waits.Jobs) - len(shown); rest > 0 {
			w.WriteChange("jobs", "  and %s: %s", show.Plural(rest, "more job"), w.whyCommand())
		}
	case "volume":
		causes, waits := w.causesOf(ctx, volumes.Why, one)
		if waits {
			w.writeCauses(causes)
		}
	}
}

// explainJobs writes the causes for which jobs wait, and their failing checks.
func (w *Watch) explainJobs(ctx context.Context, named ...Named) {
	var all []*structs.Reason
	var waiting []Named
	for _, j := range named {
		causes, waits := w.causesOf(ctx, jobs.Why, j)
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
type readWhy func(context.Context, *api.Client, string, *api.Query) (*structs.WhyResponse, *api.Meta, error)

// causesOf returns the causes for which a job or a volume waits, and whether it does.
func (w *Watch) causesOf(ctx context.Context, read readWhy, of Named) (causes []*structs.Reason, waits bool) {
	why, _, err := read(ctx, w.API, of.ID, &api.Query{Namespace: of.Namespace})
	if err != nil || !why.Waits {
		return nil, false
	}
	return structs.Causes(why.Reasons), true
}

// writeCauses writes the causes that are not among the last ones, with their remedies.
func (w *Watch) writeCauses(causes []*structs.Reason) {
	rest := max(0, len(causes)-mostCauses)
	current := map[string]bool{}
	for _, r := range causes[:len(causes)-rest] {
		current[r.Same()] = true
		if w.Waits.causes[r.Same()] {
			continue
		}
		w.WriteLine("  waits: %s", show.OneLine(r.Text))
		if r.Remedy != "" {
			w.WriteLine("    -> %s", show.OneLine(r.Remedy))
		}
	}
	if rest > 0 {
		w.WriteChange("causes", "  and %s more: %s", show.Plural(rest, "reason"), w.whyCommand())
	}
	w.Waits.causes = current
}

// explainChecks writes the failing checks of the first allocations of a job that run and are not healthy.
func (w *Watch) explainChecks(ctx context.Context, job Named) {
	allocs, _, err := jobs.AllocationsOf(ctx, w.API, job.ID, false, &api.Query{Namespace: job.Namespace})
	if err != nil {
		return
	}
	allocs = slices.DeleteFunc(allocs, func(a *structs.AllocListStub) bool {
		return a.ClientStatus != structs.AllocRunning || a.DesiredStatus != structs.AllocDesiredRun ||
			a.DeploymentStatus.IsHealthy()
	})
	for _, a := range allocs[:min(len(allocs), mostChecked)] {
		checks, _ := BadChecks(ctx, w.Call, a.ID) // the watch goes on without them
		for _, check := range checks {
			w.WriteChange("check "+a.ID+check.ID, "  check %q of service %q on allocation %s: %s",
				check.Check, check.Service, w.Call.ID(a.ID),
				show.WithDescription(check.Status, show.OneLine(check.Output)))
		}
	}
}

// BadChecks returns the checks of an allocation that have failed or warn, in the order of their names.
func BadChecks(ctx context.Context, c *command.Call, allocID string) (bad []*structs.CheckResult, err error) {
	checks, err := allocs.ListChecks(ctx, c.API, allocID)
	if err != nil {
		return nil, err
	}
	for _, check := range checks {
		if check.Status == structs.CheckFailing || check.Status == structs.CheckWarning {
			bad = append(bad, check)
		}
	}
	slices.SortFunc(bad, func(a, b *structs.CheckResult) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Check, b.Check),
			cmp.Compare(a.ID, b.ID))
	})
	return bad, nil
}

// ExplainAtLast explains a wait whose time is over. The context of the wait has ended.
func (w *Watch) ExplainAtLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	w.Waits.causes = nil // the reader may not have seen those before
	w.explain(ctx)
}
