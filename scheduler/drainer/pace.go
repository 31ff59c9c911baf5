package drainer

import (
	"cmp"
	"fmt"
	"time"

	"berth/state"
	"berth/structs"
)

// groupKey names a group of a job, or its canaries in a deployment before their promotion: these run beside
// the others and take nobody's place.
type groupKey struct{ ns, job, group, canariesOf string }

// canariesOf returns the deployment of a canary that is not promoted, "" for another allocation.
func canariesOf(a *structs.Allocation) (deployment string) {
	if a.DeploymentStatus.IsCanary() {
		return a.DeploymentID
	}
	return ""
}

// groupPace counts how many allocations of a group may leave now.
type groupPace struct {
	of        string // in reasons
	parallel  int
	wanted    int // allocations that the group has, or is to have without an operator
	healthy   int
	spare     int                   // healthy allocations that the group can miss
	unhealthy []*structs.Allocation // the pace waits for them
	down      map[string]bool       // the IDs of allocations that nobody misses
}

// pace returns the pace of the allocations of a group to which a belongs.
func (p *planner) pace(j *structs.Job, g *structs.TaskGroup, a *structs.Allocation) *groupPace {
	deployment := canariesOf(a)
	key := groupKey{j.Namespace, j.ID, g.Name, deployment}
	pace := p.groups[key]
	if pace != nil {
		return pace
	}

	migrate := structs.DefaultMigrateStrategy()
	if g.Migrate != nil {
		migrate = *g.Migrate
	}

	pace = &groupPace{
		of:       "group " + g.Name,
		parallel: migrate.MaxParallel,
		down:     map[string]bool{},
	}

	if deployment != "" {
		pace.of = "the canaries of " + pace.of
	}

	p.countConditions(pace, key)
	pace.wanted = p.wanted(j, g, deployment)

	// The group may miss max_parallel of those that it wants, whatever else it misses.
	pace.spare = max(0, pace.healthy-(pace.wanted-pace.parallel))
	p.groups[key] = pace
	return pace
}

// countConditions counts the allocations of a group, or its canaries, that do not leave already.
func (p *planner) countConditions(pace *groupPace, key groupKey) {
	for a := range state.LiveAllocsByJob(p.tx, key.ns, key.job) {
		// Those that leave already are missed, so they are not among the healthy ones.
		if a.TaskGroup != key.group || a.Migrate || canariesOf(a) != key.canariesOf || p.leavesAtOnce(a) {
			continue
		}

		condition := p.conditionOf(a)
		if condition == isHealthy {
			pace.healthy++
			continue
		}

		pace.unhealthy = append(pace.unhealthy, a)
		pace.down[a.ID] = condition == isDown
	}
}

// leavesAtOnce reports whether an allocation leaves in this step whatever its group can miss, because the
// deadline of the drain of its node has passed. The group misses it then.
func (p *planner) leavesAtOnce(a *structs.Allocation) bool {
	return p.due[a.NodeID] && len(a.CSIPlugins) == 0
}

// wanted returns the count of a group. If its deployment holds it, allocations that are missing stay missing,
// unless the scheduler places them again. So it is with the canaries of a deployment.
func (p *planner) wanted(j *structs.Job, g *structs.TaskGroup, deployment string) int {
	held := p.heldGroups(j)
	if deployment == "" && !held.Holds(g) {
		return g.Count
	}

	live := 0
	taken := map[int]bool{}
	for a := range state.AllocsByJob(p.tx, j.Namespace, j.ID) {
		if a.TaskGroup != g.Name || canariesOf(a) != deployment || a.ServerTerminal() ||
			a.NextAllocation != "" {
			continue
		}

		taken[a.Index()] = true // one that has ended by itself also keeps its place
		if !a.ClientTerminal() {
			live++
		}
	}

	switch {
	case deployment == "":
		return live + len(held.Misses(p.tx, g, taken))
	case held.Deployment != nil && held.Deployment.ID == deployment:
		return live + held.MissedCanaries(g, len(taken))
	}

	return live
}

// heldGroups returns the groups that the deployment of a job holds.
func (p *planner) heldGroups(j *structs.Job) *state.HeldGroups {
	key := structs.JobKey{Namespace: j.Namespace, ID: j.ID}
	if p.held[key] == nil {
		p.held[key] = &state.HeldGroups{Job: j, Deployment: state.DeploymentOfVersion(p.tx, j)}
	}
	return p.held[key]
}

// take reports whether an allocation may leave, and counts it.
func (g *groupPace) take(a *structs.Allocation) bool {
	if g.down[a.ID] {
		return true
	}
	if g.spare == 0 {
		return false
	}
	g.spare--
	return true
}

// condition says whether a group misses an allocation that leaves.
type condition int

const (
	isDown    condition = iota // it does not run, or is unhealthy: nobody misses it
	isNew                      // it runs, and its health is not known yet
	isHealthy                  // its group can miss it only at its pace
)

// reportedLate is the time after the deadline of the health in which its report arrives.
const reportedLate = 30 * time.Second

// conditionOf judges an allocation by the health that its node has reported. Where the node reports none, and
// where it has not done so in time, the states of the tasks decide.
func (p *planner) conditionOf(a *structs.Allocation) condition {
	var tasks []*structs.Task
	var rule *structs.HealthRule
	decides := false
	j := state.JobOf(p.tx, a)
	if j != nil && j.Group(a.TaskGroup) != nil {
		g := j.Group(a.TaskGroup)
		tasks = g.Tasks
		rule = g.HealthRule(a.DeploymentID != "")
		decides = rule != nil && rule.Check != structs.HealthManual && p.reportsHealth(a)
	}

	if rule == nil {
		rule = new(structs.DefaultMigrateStrategy()).HealthRule()
	}

	order := structs.OrderOf(tasks, a.TaskStates)
	inOrder := time.Duration(0)
	if !order.Since.IsZero() {
		inOrder = p.now.Sub(order.Since)
	}

	switch {
	case a.ClientStatus != structs.AllocRunning || !order.Runs || a.DeploymentStatus.IsUnhealthy():
		return isDown
	// A report that is this late does not come, so the time for which the tasks have run decides.
	case a.DeploymentStatus.IsHealthy() || inOrder >= rule.Deadline+reportedLate:
		return isHealthy
	case decides:
		return isNew
	case !order.Since.IsZero() && inOrder >= rule.MinTime:
		return isHealthy
	case p.now.Sub(time.Unix(0, a.CreateTime)) >= rule.Deadline:
		return isDown // it restarts again and again
	}

	return isNew
}

// reportsHealth reports whether the servers are told the health of an allocation. That in a deployment counts
// only until its end.
func (p *planner) reportsHealth(a *structs.Allocation) bool {
	d := state.Deployment(p.tx, a.DeploymentID)
	return a.DeploymentID == "" || d != nil && d.Active()
}

// paceReason tells what an allocation waits for that its group cannot miss yet.
func (p *planner) paceReason(a *structs.Allocation, g *groupPace) string {
	if !p.explain {
		return ""
	}

	text := fmt.Sprintf("at most %d of %s may be missing, and %d of %d are healthy",
		g.parallel, g.of, g.healthy, g.wanted)
	if len(g.unhealthy) > 0 {
		other := g.unhealthy[0]
		text += fmt.Sprintf("; allocation %s on node %s is %s", structs.ShortID(other.ID),
			cmp.Or(other.NodeName, structs.ShortID(other.NodeID)), describe(other))
	}

	return text + p.blocked(a)
}

// describe tells the condition of an allocation to an operator.
func describe(a *structs.Allocation) string {
	switch {
	case a.DeploymentStatus.IsUnhealthy():
		return "unhealthy"
	case a.ClientStatus == structs.AllocRunning:
		return "running, but not known to be healthy yet"
	case a.ClientDescription != "":
		return a.ClientStatus + ": " + a.ClientDescription
	}
	return a.ClientStatus
}
