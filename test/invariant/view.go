package invariant

import (
	"fmt"
	"slices"

	"berth/state"
	"berth/state/csi"
	"berth/state/unblock"
	"berth/structs"
)

// View is a state with its rows in maps. NewView makes it.
type View struct {
	Tx          *state.ReadTx
	Nodes       map[string]*structs.Node
	Jobs        []*structs.Job
	Allocs      map[string]*structs.Allocation
	ByJob       map[structs.JobKey][]*structs.Allocation // in the order of their creation
	OnNode      map[string][]*structs.Allocation         // those that have not ended, in the same order
	Claims      []*structs.CSIClaim
	Open        map[structs.JobKey][]*structs.Evaluation // pending and blocked ones
	Failed      []*structs.Evaluation
	Deployments map[structs.JobKey]*structs.Deployment // the newest of each job
}

// NewView reads all rows.
func NewView(tx *state.ReadTx) *View {
	v := &View{
		Tx:          tx,
		Nodes:       map[string]*structs.Node{},
		Allocs:      map[string]*structs.Allocation{},
		ByJob:       map[structs.JobKey][]*structs.Allocation{},
		OnNode:      map[string][]*structs.Allocation{},
		Open:        map[structs.JobKey][]*structs.Evaluation{},
		Deployments: map[structs.JobKey]*structs.Deployment{},
	}
	for n := range state.Nodes(tx) {
		v.Nodes[n.ID] = n
	}
	v.Jobs = slices.Collect(state.JobsFrom(tx, structs.AllNamespaces, "", state.Page{}))
	v.Claims = slices.Collect(csi.ClaimsFrom(tx, structs.AllNamespaces, "", state.Page{}))
	all := slices.Collect(state.AllocsFrom(tx, structs.AllNamespaces, "", state.Page{}))
	slices.SortFunc(all, func(a, b *structs.Allocation) int {
		return int(int64(a.CreateIndex) - int64(b.CreateIndex))
	})
	for _, a := range all {
		key := structs.JobKey{Namespace: a.Namespace, ID: a.JobID}
		v.Allocs[a.ID] = a
		v.ByJob[key] = append(v.ByJob[key], a)
		if !a.ClientTerminal() {
			v.OnNode[a.NodeID] = append(v.OnNode[a.NodeID], a)
		}
	}
	for e := range state.EvalsFrom(tx, structs.AllNamespaces, "", state.Page{}) {
		if e.Status == structs.EvalFailed {
			v.Failed = append(v.Failed, e)
		}
		if !e.Terminal() {
			key := structs.JobKey{Namespace: e.Namespace, ID: e.JobID}
			v.Open[key] = append(v.Open[key], e)
		}
	}
	for _, j := range v.Jobs {
		key := keyOf(j)
		for d := range state.DeploymentsByJob(tx, j.Namespace, j.ID) {
			v.Deployments[key] = d
			break
		}
	}
	return v
}

// Busy reports whether the servers have something to do at once: an evaluation to process, or others to
// unblock.
func Busy(tx *state.ReadTx) bool {
	for range state.ReadyEvals(tx) {
		return true
	}
	return unblock.Due(tx)
}

func keyOf(j *structs.Job) structs.JobKey {
	return structs.JobKey{Namespace: j.Namespace, ID: j.ID}
}

// groupOf returns the group of an allocation in its own version of the job.
func (v *View) groupOf(a *structs.Allocation) *structs.TaskGroup {
	j := state.JobOf(v.Tx, a)
	if j == nil {
		return &structs.TaskGroup{}
	}
	return j.Group(a.TaskGroup)
}

// ended reports whether an allocation is gone or has ended on its node.
func (v *View) ended(id string) bool {
	a := v.Allocs[id]
	return a == nil || a.ClientTerminal()
}

// mayRun returns the allocations of a node whose tasks may run now: they have not ended, and those that they
// wait for have.
func (v *View) mayRun(node string) (out []*structs.Allocation) {
	for _, a := range v.OnNode[node] {
		waits := false
		for id := range a.Awaits() {
			waits = waits || !v.ended(id)
		}
		if !waits {
			out = append(out, a)
		}
	}
	return out
}

// toRun returns the allocations of a node that have not ended and are not to end.
func (v *View) toRun(node string) (out []*structs.Allocation) {
	for _, a := range v.OnNode[node] {
		if !a.ServerTerminal() {
			out = append(out, a)
		}
	}
	return out
}

// describe names an allocation in a fault.
func describe(a *structs.Allocation) string {
	return fmt.Sprintf("%s %s of version %d (%s, %s)",
		a.Name, structs.ShortID(a.ID), a.JobVersion, a.DesiredStatus, a.ClientStatus)
}
