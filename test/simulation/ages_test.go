package simulation

import (
	"slices"
	"strings"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// ages knows since when rows are as they are, by the time that has passed, and checks that nothing is done to
// them before its time. It implements fsm.Observer.
type ages struct {
	w        *world
	jobs     map[structs.JobKey]time.Time
	drains   map[string]drain // by node
	progress map[string]map[string]progress
}

// drain is the deadline of a drain, and when it was set.
type drain struct {
	deadline time.Time
	set      time.Time
}

// progress is the time up to which a group of a deployment has to progress, and when that was set.
type progress struct {
	by  time.Time
	set time.Time
}

func newAges(w *world) *ages {
	return &ages{
		w:        w,
		jobs:     map[structs.JobKey]time.Time{},
		drains:   map[string]drain{},
		progress: map[string]map[string]progress{},
	}
}

// slower is by how much an entry may set back the cluster time that a server counts: it runs slower by a
// tenth for the time between two entries while clocks are behind.
const slower = 3 * time.Second

// aged are the tables whose rows have ages.
var aged = []string{
	schema.Jobs.Name(),
	schema.Nodes.Name(),
	schema.Allocs.Name(),
	schema.Deployments.Name(),
	schema.ACLTokens.Name(),
}

func (a *ages) Observes(table string) bool { return slices.Contains(aged, table) }

func (a *ages) Restored(uint64) {}

// Publish implements fsm.Observer.
func (a *ages) Publish(_ uint64, entries []fsm.Entry) {
	for _, e := range entries {
		for _, c := range e.Changes {
			a.note(c)
		}
	}
}

func (a *ages) note(c fsm.Change) {
	switch row := c.Now.(type) {
	case *structs.Job:
		a.jobs[keyOf(row)] = time.Now()
	case *structs.Node:
		before, _ := c.Before.(*structs.Node)
		a.noteNode(c.Command, before, row)
	case *structs.Allocation:
		if c.Command == fsm.AllocsMigrate.Name {
			a.checkDrain(row)
		}
	case *structs.Deployment:
		a.noteDeployment(row)
	}
	if c.Now != nil {
		return
	}
	switch row := c.Before.(type) {
	case *structs.Job:
		a.checkDeleted(c.Command, row)
	case *access.Token:
		now := a.w.clocks.Now().Add(slower)
		if !row.Expired(now.UnixNano()) {
			a.w.fail("the row of token %s is deleted %s before its end in the cluster time", row.AccessorID,
				time.Unix(0, row.ExpireTime).Sub(now))
		}
	}
}

func keyOf(j *structs.Job) structs.JobKey { return structs.JobKey{Namespace: j.Namespace, ID: j.ID} }

// checkDeleted checks that the garbage collection deletes no job that was new. An evaluation or an allocation
// may go earlier, with its job.
func (a *ages) checkDeleted(command string, j *structs.Job) {
	since := a.jobs[keyOf(j)]
	if command == fsm.Reap.Name && tooEarly(since, a.w.deps.Config.GCKeep.Job) {
		a.w.fail("job %s is deleted %s after its last change", j.ID, time.Since(since))
	}
	delete(a.jobs, keyOf(j))
}

// noteNode checks that a node that is marked down was silent for its lease and the grace. They count from a
// heartbeat that the servers answered, at the earliest from its sending.
func (a *ages) noteNode(command string, before, now *structs.Node) {
	lost := now.Status == structs.NodeDown && before != nil && before.Status != structs.NodeDown
	if lost && command == fsm.NodeStatus.Name {
		leases := a.w.deps.Config.Leases
		silent := a.w.node(now.ID).silent()
		if silent < leases.TTL+leases.Grace {
			a.w.fail("%s is down %s after its last heartbeat", now.ID, silent)
		}
	}
	if s := now.DrainStrategy; s == nil {
		delete(a.drains, now.ID)
	} else if !a.drains[now.ID].deadline.Equal(s.ForceDeadline) {
		a.drains[now.ID] = drain{s.ForceDeadline, time.Now()}
	}
}

// checkDrain checks that a drain stops no allocation of a batch job before its deadline.
func (a *ages) checkDrain(row *structs.Allocation) {
	tx := a.w.store.Read()
	n := state.Node(tx, row.NodeID)
	j := state.JobOf(tx, row)
	if n == nil || n.DrainStrategy == nil || j == nil || !j.Finite() || j.PerNode() {
		return
	}
	deadline := n.DrainStrategy.Deadline
	if deadline < 0 {
		return
	}
	set := a.drains[n.ID].set
	if deadline == 0 || tooEarly(set, deadline) {
		a.w.fail("the drain of %s stops an allocation of batch job %s after %s, and its deadline is %s", n.ID, j.ID,
			time.Since(set), deadline)
	}
}

// noteDeployment checks that a deployment that fails by its deadline has made no progress for that long.
func (a *ages) noteDeployment(d *structs.Deployment) {
	failed := d.Status == structs.DeploymentFailed
	if failed && strings.HasPrefix(d.StatusDescription, structs.DeploymentFailedByDeadline) {
		a.checkFailed(d)
	}
	if !d.Active() {
		delete(a.progress, d.ID)
		return
	}
	groups := a.progress[d.ID]
	if groups == nil {
		groups = map[string]progress{}
		a.progress[d.ID] = groups
	}
	for name, s := range d.TaskGroups {
		if !groups[name].by.Equal(s.RequireProgressBy) {
			groups[name] = progress{s.RequireProgressBy, time.Now()}
		}
	}
}

func (a *ages) checkFailed(d *structs.Deployment) {
	for name, s := range d.TaskGroups {
		p := a.progress[d.ID][name]
		if !p.by.IsZero() && !tooEarly(p.set, s.ProgressDeadline) {
			return
		}
	}
	for name, s := range d.TaskGroups {
		a.w.fail("the deployment of %s fails by its deadline, and group %s of it has %s since its last progress, not %s",
			d.JobID, name, time.Since(a.progress[d.ID][name].set), s.ProgressDeadline)
	}
}
