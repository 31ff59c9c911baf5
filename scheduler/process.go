package scheduler

import (
	"time"

	"berth/internal/level"
	"berth/scheduler/feasible"
	"berth/scheduler/place"
	"berth/scheduler/rollout"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// Process computes the plan for an evaluation. The evaluation in the plan is complete, or blocked again if it
// was a blocked one. Its FailedTGAllocs holds the groups without a place, and another blocked evaluation
// waits for capacity.
func Process(tx *state.ReadTx, eval *structs.Evaluation, now time.Time) (*structs.Plan, error) {
	return process(tx, eval, now, options{enough: place.Enough})
}

// options are the inputs of process besides the state.
type options struct {
	enough int                                 // feasible nodes of a sample
	above  func(v any, level int) []level.Part // of the fields that agents do not know; nil: level.Above
	anew   bool                                // repeats no trial of a node: tests compare both
}

// process is Process with options.
func process(tx *state.ReadTx, eval *structs.Evaluation, now time.Time, o options) (*structs.Plan, error) {
	p, err := newPlanner(tx, eval, now, o)
	if err != nil {
		return nil, err
	}
	p.decide()
	p.execute()

	// A plan reads many views of nodes, and the next plan uses their memory.
	p.outlook.ReleaseViews()
	return p.outlook.Plan, nil
}

func newPlanner(tx *state.ReadTx, eval *structs.Evaluation, now time.Time, o options) (*planner, error) {
	if eval == nil ||
		eval.ID == "" ||
		eval.JobID == "" {
		return nil, structs.Invalidf("an evaluation needs an ID and a job")
	}
	view := feasible.NewOutlook(tx, eval, now)
	p := &planner{outlook: view, placer: place.New(view, place.Options{Enough: o.enough, Anew: o.anew})}
	if o.above != nil {
		p.outlook.FieldsAbove = o.above
	}
	return p, nil
}

// decide compares the job with its allocations.
func (p *planner) decide() {
	switch {
	// All of its allocations end, also those that an evaluation of one node does not read.
	case p.outlook.Job == nil || p.outlook.Job.Stop:
		for a := range state.AllocsByJob(p.outlook, p.outlook.Namespace, p.outlook.Eval.JobID) {
			p.endAlloc(a, "job is stopped")
		}
	case p.outlook.Job.StartsOthers(): // its children have evaluations of their own
	case p.outlook.Job.PerNode():
		p.reconcilePerNode()
	default:
		p.reconcile()
	}
}

// execute looks for nodes and completes the plan.
func (p *planner) execute() {
	for _, w := range p.delayed {
		p.outlook.Hosts.Reserve(w.Alloc)
	}
	p.placer.PlaceAll(p.placements, p.rollout)
	c := conclusion{planner: p, outlook: p.outlook, placer: p.placer}
	c.addFollowup()
	c.addNextBatch()
	c.finishEval()
	p.placer.SplitParts()
}

// planner computes the plan of one evaluation: it decides on the job's allocations.
type planner struct {
	outlook *feasible.Outlook
	placer  *place.Placer
	rollout *rollout.Rollout // of the job's version, nil if the job has no deployments

	placements []*place.Placement
	former     map[formerGroup]*place.Group // groups in older versions, which are placed again
	replaced   []*structs.Allocation        // of the job: see isReplaced
	delayed    []rollout.Decision           // ended allocations that are replaced later
	nowhere    bool                         // a per-node job runs on no node
	moves      int                          // allocations that the plan stops and places again
}

// endAlloc stops an allocation, or marks it lost if its node is down.
func (p *planner) endAlloc(a *structs.Allocation, why string) {
	switch {
	case a.ClientTerminal():
	case p.outlook.NodeOf(a).Lost():
		p.outlook.StopAlloc(a, structs.StopNodeDown, schema.NodeIsDown)
	case !a.ServerTerminal():
		p.outlook.StopAlloc(a, "", why)
	}
}

// liveAllocs returns the job's allocations that the servers want to run, and the lost ones that have done
// their work. It marks allocations as lost that were stopping when their node went down.
func (p *planner) liveAllocs() []*structs.Allocation {
	var out []*structs.Allocation
	for a := range p.outlook.JobAllocs() {
		switch {
		case !a.ServerTerminal(), state.DoneWhenLost(p.outlook, a):
			out = append(out, a)
		// Nobody will report the end of a stop on a node that is down. As lost it no longer holds the place.
		case !a.ClientTerminal() && p.outlook.NodeOf(a).Lost():
			p.outlook.StopAlloc(a, structs.StopNodeDown, schema.NodeIsDown)
		}
		if isReplaced(a) {
			p.replaced = append(p.replaced, a)
		}
	}
	p.outlook.SetLive(out)
	return out
}

// addGroup adds a group of the job.
func (p *planner) addGroup(group *structs.TaskGroup) *place.Group {
	return p.addGroupOf(p.outlook.Job, group)
}

// addGroupOf adds a group of a version of the job.
func (p *planner) addGroupOf(version *structs.Job, group *structs.TaskGroup) *place.Group {
	return p.placer.AddGroup(p.outlook.Compile(version, group))
}
