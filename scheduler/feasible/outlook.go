package feasible

import (
	"iter"
	"slices"
	"time"

	"berth/internal/level"
	"berth/scheduler/hostplace"
	"berth/scheduler/match"
	"berth/scheduler/rejects"
	"berth/state"
	"berth/structs"
)

// VolumeKeys tells how many unblock keys of volumes the rejections of an evaluation have.
type VolumeKeys struct {
	named   int  // volumes
	TooMany bool // there are more than an evaluation may name
}

// Outlook is the state as it will be with the plan so far: what the plan stops and places, and the nodes with
// these effects. It takes no decision.
type Outlook struct {
	*state.ReadTx

	Eval        *structs.Evaluation
	Namespace   string                              // of the job
	Job         *structs.Job                        // nil if it is gone
	Now         time.Time                           // of the plan
	Plan        *structs.Plan                       // so far
	Scope       string                              // the ID of the only node to evaluate, "" for all
	FieldsAbove func(v any, level int) []level.Part // level.Above, or in tests another
	Keys        VolumeKeys                          // of the rejections so far
	Waits       bool                                // for the end of a plugin: no key tells of it
	Hosts       hostplace.Plan                      // the dynamic host volumes

	quota      *quotaUse       // nil: the namespace names none
	fleet      []*structs.Node // all nodes, by ID; nil until AllNodes
	views      map[string]*NodeView
	viewMemory *viewMemory                      // has the views; nil before the first one
	nodes      map[string]*structs.Node         // see NodeOf
	live       []*structs.Allocation            // of the job, that the servers want to run
	knowsOwn   bool                             // live has those on all nodes
	own        map[string][]*structs.Allocation // live by node; nil until OwnByNode
	values     []*match.ValueCount              // that have counted the job's allocations
	stopped    map[string]bool                  // allocations that the plan stops
	crowded    map[*Group]map[string]bool       // see IsCrowded; nil until needed

	intended map[string][]*structs.CSIClaim // claims of the plan's allocations, by volume
}

// NewOutlook returns the state for an evaluation, with a plan that is empty so far.
func NewOutlook(tx *state.ReadTx, eval *structs.Evaluation, now time.Time) *Outlook {
	ns := structs.NamespaceOr(eval.Namespace)
	return &Outlook{
		ReadTx:      tx,
		Eval:        eval,
		Namespace:   ns,
		Job:         state.Job(tx, ns, eval.JobID),
		Now:         now,
		Plan:        &structs.Plan{},
		nodes:       map[string]*structs.Node{},
		stopped:     map[string]bool{},
		FieldsAbove: level.Above,
		intended:    map[string][]*structs.CSIClaim{},
		quota:       newQuotaUse(tx, ns),
	}
}

// ofJob reports whether an allocation belongs to the job.
func (p *Outlook) ofJob(a *structs.Allocation) bool {
	return a.JobID == p.Eval.JobID && a.Namespace == p.Namespace
}

// AllNodes returns all nodes, by ID.
func (p *Outlook) AllNodes() []*structs.Node {
	if p.fleet == nil {
		p.fleet = slices.Collect(state.Nodes(p))
	}
	return p.fleet
}

// Check returns the rejection of a node by the first filter that rejects it, nil if none does.
func (p *Outlook) Check(d *Demand, v *NodeView) *rejects.Rejection {
	d, lacks := onNode(p, d, v)
	if lacks != nil {
		return lacks
	}
	for _, f := range placeFilters {
		r := f.check(p, d, v)
		if r != nil {
			if r.Filter == "" {
				// Those of exhausted have their name. They are shared by all plans, so nothing writes to
				// them.
				r.Filter = f.name
			}
			return r
		}
	}
	return nil
}

// Add adds an allocation to the plan: it gives the allocation its resources, devices and ports of a node, and
// counts it there from here on. The node has passed Check.
func (p *Outlook) Add(a *structs.Allocation, d *Demand, v *NodeView) {
	g := d.Group
	here, _ := onNode(p, d, v)
	if here != nil && here.here != nil {
		d = here
		a.CSIVolumes = p.Hosts.Uses(d.here)
	}

	// All allocations of the group share one value, which saves memory in a large job. Nothing changes it.
	a.Resources = g.Kept
	a.NoMemoryMax = g.noMemoryMax
	if len(g.devices) > 0 {
		// Check chose with the same view, so the same devices are free.
		choice, _ := chooseDevices(g.devices, v)
		a.Devices = choice.devices
	}

	if len(g.ports) > 0 {
		a.Ports, _ = p.choosePorts(g, v)
		v.ports.Add(a)
	}

	// This precedes v.place, which takes the capacity whose givers it names.
	p.nameAwaited(a, v)
	p.Plan.Place = append(p.Plan.Place, a)
	v.place(p, a)
	if len(g.hostVolumes) > 0 {
		v.writers = append(v.writers, d.here.Of(d.Group.TaskGroup))
	}

	p.countValues(a, 1)
	p.quota.count(p, a, 1)
	p.quota.countNew(p, d.Uses)

	// This precedes addIntendedClaims: the volumes that the allocation adds are compared with those before
	// it.
	p.giveVolumePlaces(d, v)
	p.addIntendedClaims(a, d.Uses, v)
}

// SetLive sets the job's allocations that the servers want to run: all, or those on the one node of the
// scope.
func (p *Outlook) SetLive(live []*structs.Allocation) {
	p.live = live
	p.knowsOwn = p.Scope == ""
}

// Stops reports whether the plan stops an allocation.
func (p *Outlook) Stops(allocID string) bool {
	return p.stopped[allocID]
}

// IsOlder reports whether an allocation has an older version of the job.
func (p *Outlook) IsOlder(a *structs.Allocation) bool {
	return a.JobVersion != p.Job.Version
}

// JobAllocs yields the job's allocations: all, or those on the one node of the scope.
func (p *Outlook) JobAllocs() iter.Seq[*structs.Allocation] {
	if p.Scope == "" {
		return state.AllocsByJob(p, p.Namespace, p.Eval.JobID)
	}
	return func(yield func(*structs.Allocation) bool) {
		// A node has few allocations of the job, and the job may have one on each node of the fleet.
		for a := range state.AllocsByNode(p, p.Scope) {
			if p.ofJob(a) && !yield(a) {
				return
			}
		}
	}
}
