package scheduler

import (
	"iter"
	"slices"
	"time"

	"berth/internal/level"
	"berth/scheduler/match"
	"berth/scheduler/rejects"
	"berth/state"
	"berth/structs"
)

// volumeKeys tells how many unblock keys of volumes the rejections of an evaluation have.
type volumeKeys struct {
	named   int  // volumes
	tooMany bool // there are more than an evaluation may name
}

// outlook is the state as it will be with the plan so far: what the plan stops and places, and the nodes with
// these effects. It takes no decision.
type outlook struct {
	*state.ReadTx

	eval        *structs.Evaluation
	ns          string
	job         *structs.Job // nil if it is gone
	now         time.Time
	plan        *structs.Plan
	scope       string                              // the ID of the only node to evaluate, "" for all
	fieldsAbove func(v any, level int) []level.Part // level.Above, or in tests another

	fleet      []*structs.Node // all nodes, by ID; nil until allNodes
	views      map[string]*nodeView
	viewMemory *viewMemory                        // has the views; nil before the first one
	nodes      map[string]*structs.Node           // see nodeOf
	live       []*structs.Allocation              // of the job, that the servers want to run
	knowsOwn   bool                               // live has those on all nodes
	own        map[string][]*structs.Allocation   // live by node; nil until ownByNode
	values     []*match.ValueCount                // that have counted the job's allocations
	stopped    map[string]bool                    // allocations that the plan stops
	crowded    map[*compiledGroup]map[string]bool // see isCrowded; nil until needed

	intended map[string][]*structs.CSIClaim // claims of the plan's allocations, by volume
	keys     volumeKeys
	waits    bool // for the end of a plugin: no key tells of it
}

func newOutlook(tx *state.ReadTx, eval *structs.Evaluation, now time.Time) *outlook {
	ns := structs.NamespaceOr(eval.Namespace)
	return &outlook{
		ReadTx:      tx,
		eval:        eval,
		ns:          ns,
		job:         state.Job(tx, ns, eval.JobID),
		now:         now,
		plan:        &structs.Plan{},
		nodes:       map[string]*structs.Node{},
		stopped:     map[string]bool{},
		fieldsAbove: level.Above,
		intended:    map[string][]*structs.CSIClaim{},
	}
}

// ofJob reports whether an allocation belongs to the job.
func (p *outlook) ofJob(a *structs.Allocation) bool {
	return a.JobID == p.eval.JobID && a.Namespace == p.ns
}

// allNodes returns all nodes, by ID.
func (p *outlook) allNodes() []*structs.Node {
	if p.fleet == nil {
		p.fleet = slices.Collect(state.Nodes(p))
	}
	return p.fleet
}

// checkPlacement returns the rejection of a node by the first filter that rejects it, nil if none does.
func (p *outlook) checkPlacement(d *Demand, v *nodeView) *rejects.Rejection {
	for _, f := range placeFilters {
		r := f.check(p, d, v)
		if r != nil {
			if r.Filter == "" {
				r.Filter = f.name
			}
			return r
		}
	}
	return nil
}

// add adds an allocation to the plan: it gives the allocation its resources, devices and ports of a node, and
// counts it there from here on. The node has passed checkPlacement.
func (p *outlook) add(a *structs.Allocation, d *Demand, v *nodeView) {
	g := d.group
	a.Resources = g.kept
	a.NoMemoryMax = g.noMemoryMax
	if len(g.devices) > 0 {
		choice, _ := chooseDevices(g.devices, v)
		a.Devices = choice.devices
	}

	if len(g.ports) > 0 {
		a.Ports, _ = p.choosePorts(g, v)
		v.ports.Add(a)
	}

	p.nameAwaited(a, v)
	p.plan.Place = append(p.plan.Place, a)
	v.place(p, a)
	if len(g.hostVolumes) > 0 {
		v.writers = append(v.writers, g.group)
	}

	p.countValues(a, 1)
	p.giveVolumePlaces(d, v)
	p.addIntendedClaims(a, d.uses, v)
}

// setLive sets the job's allocations that the servers want to run: all, or those on the one node of the
// scope.
func (p *outlook) setLive(live []*structs.Allocation) {
	p.live = live
	p.knowsOwn = p.scope == ""
}

// stops reports whether the plan stops an allocation.
func (p *outlook) stops(allocID string) bool {
	return p.stopped[allocID]
}

// isOlder reports whether an allocation has an older version of the job.
func (p *outlook) isOlder(a *structs.Allocation) bool {
	return a.JobVersion != p.job.Version
}

// jobAllocs yields the job's allocations: all, or those on the one node of the scope.
func (p *outlook) jobAllocs() iter.Seq[*structs.Allocation] {
	if p.scope == "" {
		return state.AllocsByJob(p, p.ns, p.eval.JobID)
	}
	return func(yield func(*structs.Allocation) bool) {
		for a := range state.AllocsByNode(p, p.scope) {
			if p.ofJob(a) && !yield(a) {
				return
			}
		}
	}
}
