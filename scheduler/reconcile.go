package scheduler

import (
	"cmp"
	"slices"

	"berth/state"
	"berth/structs"
)

// want is one allocation to be placed.
type want struct {
	plan  *groupPlan
	index int
	node  *structs.Node       // of jobs per node: the one it belongs to
	prev  *structs.Allocation // that it replaces, or nil

	update      bool  // prev runs until its replacement is placed
	rescheduled bool  // prev failed
	delay       int64 // that was waited for it, nanoseconds

	uses   []volumeUse // looked up once
	looked bool

	ended bool         // the plan has stopped prev already
	fresh int          // it stands for so many that replace none, with the lowest indexes that are not taken
	taken map[int]bool // by the index, of these
}

// fate is what is to become of an allocation that counts for its group.
type fate int

const (
	keep       fate = iota
	refresh         // goes on under the new version of the job
	update          // replaced by one of the new version, once that has a place
	move            // stopped now and placed anew
	lose            // given up with its node and placed anew
	reschedule      // ended, and replaced now
	held            // ended, and not replaced, now or ever
	gone            // counts no more
)

// slot is an allocation with its fate.
type slot struct {
	alloc *structs.Allocation
	fate  fate
	why   string
	delay int64
	due   int64 // of one that is held: when it is to be replaced, 0 never
}

// reconcile compares a service or batch job with its allocations.
func (p *planner) reconcile() {
	byGroup := map[string][]*structs.Allocation{}
	for _, a := range p.live() {
		if p.job.Group(a.TaskGroup) == nil {
			p.end(a, "its group is no longer in the job")
			continue
		}
		byGroup[a.TaskGroup] = append(byGroup[a.TaskGroup], a)
	}
	for _, group := range p.job.TaskGroups {
		g := newGroupPlan(p.job, group)
		p.groups = append(p.groups, g)
		p.reconcileGroup(g, byGroup[group.Name])
	}
}

func (p *planner) reconcileGroup(g *groupPlan, allocs []*structs.Allocation) {
	var slots []slot
	for _, a := range allocs {
		if s := p.judge(g, a); s.fate != gone {
			slots = append(slots, s)
		}
	}
	taken := map[int]bool{}
	for _, s := range p.trim(g, slots) {
		taken[s.alloc.Index()] = true
		p.act(g, s)
	}
	if missing := g.group.Count - len(taken); missing > 0 {
		p.wants = append(p.wants, &want{plan: g, fresh: missing, taken: taken})
	}
}

// judge says what becomes of an allocation of the group, its fellows aside.
func (p *planner) judge(g *groupPlan, a *structs.Allocation) slot {
	s := slot{alloc: a}
	n := p.node(a.NodeID)
	switch {
	case a.ClientTerminal():
		return p.judgeEnded(g, a)
	case p.lost(a.NodeID):
		s.fate, s.why = lose, "node is down"
	case a.Migrate:
		s.fate, s.why = move, "stopped by an operator, to be placed anew"
	case n.Drain:
		s.fate, s.why = move, "node is draining"
	case a.JobVersion == p.job.Version:
		s.fate = keep
	default:
		s.fate, s.why = p.judgeVersion(g, a, n)
	}
	return s
}

// judgeVersion compares what runs with what the new version of the job says.
func (p *planner) judgeVersion(g *groupPlan, a *structs.Allocation, n *structs.Node) (fate, string) {
	old := state.JobVersion(p.tx, p.ns, a.JobID, a.JobVersion)
	var was *structs.TaskGroup
	if old != nil {
		was = old.Group(a.TaskGroup)
	}
	if sameRuns(old, was, p.job, g.group) && g.fits(n) == "" {
		return refresh, ""
	}
	return update, "replaced by a newer version of the job"
}

// trim drops what is too many: of allocations with one index all but the one best off, then the highest
// indexes. Of a group with volumes per allocation an index beyond the count has no volume.
func (p *planner) trim(g *groupPlan, slots []slot) []slot {
	slices.SortFunc(slots, func(a, b slot) int {
		return cmp.Or(a.alloc.Index()-b.alloc.Index(), cmp.Compare(a.fate, b.fate),
			cmp.Compare(b.alloc.CreateIndex, a.alloc.CreateIndex), cmp.Compare(a.alloc.ID, b.alloc.ID))
	})
	perAlloc := g.perAlloc()
	var kept []slot
	for i, s := range slots {
		twice := i > 0 && slots[i-1].alloc.Index() == s.alloc.Index()
		if twice || len(kept) >= g.group.Count || perAlloc && s.alloc.Index() >= g.group.Count {
			p.end(s.alloc, "no longer needed by the count of its group")
			continue
		}
		kept = append(kept, s)
	}
	return kept
}

func (g *groupPlan) perAlloc() bool {
	for _, v := range g.group.Volumes {
		if v.PerAlloc {
			return true
		}
	}
	return false
}

// act plans what the fate of an allocation asks for.
func (p *planner) act(g *groupPlan, s slot) {
	w := &want{plan: g, index: s.alloc.Index(), prev: s.alloc, delay: s.delay}
	switch s.fate {
	case keep, gone:
		return
	case held:
		if s.due > 0 {
			p.delayed = append(p.delayed, waiting{s.alloc, s.due})
		}
		return
	case refresh:
		p.plan.Update = append(p.plan.Update, &structs.PlanUpdate{AllocID: s.alloc.ID, JobVersion: p.job.Version, SetJobVersion: true})
		return
	case move, lose:
		if !p.endToMove(s) {
			return
		}
		w.ended = true
	case update:
		w.update = true
	case reschedule:
		w.rescheduled = true
	}
	p.wants = append(p.wants, w)
}

// endToMove stops an allocation that is to be placed anew, unless the plan moves as many as it may: then it
// stays until the next one.
func (p *planner) endToMove(s slot) bool {
	if p.moves >= mostPlaced {
		p.more = true
		return false
	}
	p.moves++
	p.end(s.alloc, s.why)
	return true
}
