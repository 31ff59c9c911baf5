// Package drainer decides how allocations leave the nodes that drain.
//
// Its rules:
//
//   - Allocations of services move at the pace of their group's `migrate` block: at most max_parallel of a
//     group are missing at a time. An allocation that does not run, or is unhealthy, moves at once, because
//     nobody misses it. One that runs and is not known to be healthy yet is missing, and waits like the
//     others. A group that its deployment holds misses no more than it had: nothing would bring the others.
//     Canaries before their promotion have the pace for themselves.
//   - Allocations of batch jobs may end by themselves until the deadline.
//   - Allocations of system jobs move after those, unless the drain ignores them.
//   - CSI plugins move last, and only when the node has let go of all volumes, because the node needs them
//     for that. Those of services keep the pace of their group. A drain with force stops them some time after
//     its deadline and the end of the others all the same, and records it.
//   - After the deadline all but the plugins move at once.
//   - A drain has ended when nothing is left that it does not ignore. If it ignores the plugins, it waits
//     until they have unmounted the volumes of the others, at most until its deadline.
//
// It is pure: it reads a snapshot and the time, and returns the next step. A leader loop takes the step. A
// new leader needs nothing but the rows.
package drainer

import (
	"fmt"
	"slices"
	"time"

	"berth/state"
	"berth/state/clustertime"
	"berth/state/csi"
	"berth/structs"
)

// Step is what the drains need at one time.
type Step struct {
	Migrate []string // allocations to stop and place again
	// ForcedPlugins names, by node, the volumes that a node still has when a drain stops its plugins.
	ForcedPlugins map[string]string
	Ended         []structs.DrainedNode
}

// Next returns the step of all draining nodes at a time of the cluster. Volumes, allocations and health come
// from tx.
func Next(tx *state.ReadTx, now time.Time) *Step {
	p := newPlanner(tx, now)
	for n := range state.DrainingNodes(tx) {
		p.drain(n)
	}
	return p.step
}

// Waits tells for each allocation on a draining node why it is still there, those first that others wait for.
func Waits(tx *state.ReadTx, node *structs.Node, now time.Time) []structs.DrainWait {
	return WaitsOf(tx, []*structs.Node{node}, now)
}

// WaitsOf returns the waits of some nodes, node by node. It plans all drains once.
func WaitsOf(tx *state.ReadTx, nodes []*structs.Node, now time.Time) []structs.DrainWait {
	if !slices.ContainsFunc(nodes, func(n *structs.Node) bool { return n.DrainStrategy != nil }) {
		return nil
	}
	p := newPlanner(tx, now)
	for n := range state.DrainingNodes(tx) {
		p.explain = slices.ContainsFunc(nodes, func(wanted *structs.Node) bool { return wanted.ID == n.ID })
		p.drain(n)
	}
	return p.waits
}

// planner collects the steps and the reasons of all drains at one time.
type planner struct {
	tx      *state.ReadTx
	now     time.Time
	step    *Step
	groups  map[groupKey]*groupPace
	held    map[structs.JobKey]*state.HeldGroups
	due     map[string]bool // the IDs of the nodes whose drain has passed its deadline
	explain bool            // whether to fill waits
	waits   []structs.DrainWait
}

func newPlanner(tx *state.ReadTx, now time.Time) *planner {
	p := &planner{
		tx:     tx,
		now:    now,
		step:   &Step{ForcedPlugins: map[string]string{}},
		groups: map[groupKey]*groupPace{},
		held:   map[structs.JobKey]*state.HeldGroups{},
		due:    map[string]bool{},
	}

	for n := range state.DrainingNodes(tx) {
		// All deadlines are known before the first pace is counted: a group may have allocations on several
		// draining nodes.
		p.due[n.ID] = p.strategy(n).Due(now)
	}

	return p
}

// strategy returns the drain of a node with its deadline in the present count of the cluster time.
func (p *planner) strategy(n *structs.Node) *structs.DrainStrategy {
	s := *n.DrainStrategy
	if !s.ForceDeadline.IsZero() {
		at := clustertime.Deadline(clustertime.Of(p.tx), s.ForceDeadline.UnixNano())
		s.ForceDeadline = time.Unix(0, at).UTC()
	}
	return &s
}

// remaining are the allocations on a node that have not ended, by the order in which they leave.
type remaining struct {
	services []*structs.Allocation
	batch    []*structs.Allocation
	system   []*structs.Allocation
	plugins  []*structs.Allocation
	users    int // allocations of system jobs that stay and use volumes
}

func (r *remaining) workloads() int {
	return len(r.services) + len(r.batch)
}

// drain adds the step of one node: the kinds of allocations leave in the order of the package's rules.
func (p *planner) drain(n *structs.Node) {
	s := p.strategy(n)
	r := p.remaining(n)
	due := s.Due(p.now)
	if r.workloads()+len(r.system)+len(r.plugins) == 0 && (due || !p.awaitVolumes(n)) {
		p.step.Ended = append(p.step.Ended, structs.DrainedNode{
			NodeID:     n.ID,
			StartedAt:  s.StartedAt,
			PluginsOff: s.StopsPlugins(p.now) && !s.IgnoreSystemJobs,
		})
		return
	}

	for _, a := range r.services {
		p.moveService(a, due)
	}

	for _, a := range r.batch {
		if due {
			p.move(a)
		} else {
			p.wait(a, "a batch job may end by itself"+p.untilDeadline(s))
		}
	}

	for _, a := range r.system {
		if due || r.workloads() == 0 {
			p.move(a)
		} else {
			p.wait(a, "a system job stops after "+count(r.workloads(), "other allocation"))
		}
	}

	p.movePlugins(n, r)
}

// remaining returns the allocations on the node that have not ended and that the drain does not ignore.
func (p *planner) remaining(n *structs.Node) *remaining {
	r := &remaining{}
	for a := range state.HoldersByNode(p.tx, n.ID) {
		j := state.JobOf(p.tx, a)
		perNode := j != nil && j.PerNode()
		switch {
		case perNode && n.DrainStrategy.IgnoreSystemJobs && !a.ServerTerminal():
			// It stays, and so do its volumes: the plugins wait for it.
			for range csi.ClaimsByAlloc(p.tx, a.ID) {
				r.users++
				break
			}

		case len(a.CSIPlugins) > 0:
			r.plugins = append(r.plugins, a)
		case perNode:
			r.system = append(r.system, a)
		case j != nil && j.Finite():
			r.batch = append(r.batch, a)
		default:
			r.services = append(r.services, a)
		}
	}

	return r
}

// awaitVolumes reports whether a node still has volumes of allocations that have ended there. One that is
// down unmounts none.
func (p *planner) awaitVolumes(n *structs.Node) (has bool) {
	if n.Status == structs.NodeDown {
		return false
	}

	for c := range csi.ClaimsByNode(p.tx, n.ID) {
		a := state.Alloc(p.tx, c.AllocID)
		if a == nil || !a.ClientTerminal() || c.State != structs.ClaimGranted {
			continue
		}

		has = true
		p.wait(a, fmt.Sprintf("it has ended, and its node has not let go of volume %s", c.VolumeID))
	}

	return has
}

// movePlugins stops the CSI plugins of a node once nothing there needs them.
func (p *planner) movePlugins(n *structs.Node, r *remaining) {
	if len(r.plugins) == 0 {
		return
	}

	held, first := state.HeldVolumes(p.tx, n.ID)
	others := r.workloads() + len(r.system) + r.users
	forced := p.stopsByForce(n)
	for _, a := range r.plugins {
		switch {
		case leaving(a):
			p.waitForEnd(a)
		case others == 0 && held == 0:
			p.movePlugin(a, p.strategy(n).Due(p.now))
		case others == 0 && !forced.IsZero() && !p.now.Before(forced):
			p.step.ForcedPlugins[n.ID] = first
			p.move(a)
		case held > 0:
			p.wait(a, fmt.Sprintf("a CSI plugin stops when the node has let go of %s: %s",
				count(held, "volume"), first)+p.untilForce(others, forced))
		default:
			p.wait(a, "a CSI plugin stops after "+count(others, "other allocation"))
		}
	}
}

// forcedAfter is the time that a node has to unmount its volumes after the end of the last allocation that
// may use them. Then a drain with force stops the plugins.
const forcedAfter = 30 * time.Second

// stopsByForce returns when the drain stops the plugins of a node although it still has volumes, zero if it
// does not. A plugin never stops under an allocation that uses it.
func (p *planner) stopsByForce(n *structs.Node) time.Time {
	s := p.strategy(n)
	if !s.StopsPlugins(p.now) {
		return time.Time{}
	}

	since := s.ForceDeadline
	if s.Deadline < 0 {
		// A negative deadline has passed from the beginning, so the time of the command counts.
		since = n.LastDrain.UpdatedAt
	}

	for a := range state.AllocsByNode(p.tx, n.ID) {
		ended := time.Unix(0, a.ModifyTime)

		// The node unmounts its volumes after its end, and needs the plugins for that.
		if a.ClientTerminal() && len(a.CSIPlugins) == 0 && ended.After(since) {
			since = ended
		}
	}

	return since.Add(forcedAfter)
}

// untilForce tells how long a plugin waits at most.
func (p *planner) untilForce(others int, forced time.Time) string {
	if others > 0 || forced.IsZero() {
		return ""
	}
	return "; it stops by force at " + timeOf(forced)
}

// movePlugin moves a plugin that its node no longer needs. Other nodes may need a plugin of a service.
func (p *planner) movePlugin(a *structs.Allocation, due bool) {
	j := state.JobOf(p.tx, a)
	if j == nil || j.PerNode() || j.Finite() {
		p.move(a)
		return
	}
	p.moveService(a, due)
}

// moveService moves an allocation if its group can miss one more.
func (p *planner) moveService(a *structs.Allocation, due bool) {
	if leaving(a) || due {
		p.move(a)
		return
	}

	// The newest version decides, not the allocation's: its count and pace are those that hold now.
	j := state.Job(p.tx, a.Namespace, a.JobID)
	if j == nil || j.Stop || j.Group(a.TaskGroup) == nil {
		p.wait(a, "the job no longer wants it; the scheduler stops it")
		return
	}

	pace := p.pace(j, j.Group(a.TaskGroup), a)
	if pace.take(a) {
		p.move(a)
		return
	}

	p.wait(a, p.paceReason(a, pace))
}

// leaving reports whether an allocation is stopping, or is to be stopped.
func leaving(a *structs.Allocation) bool {
	return a.ServerTerminal() || a.Migrate
}

// move adds an allocation to the step, unless that was done before.
func (p *planner) move(a *structs.Allocation) {
	if leaving(a) {
		p.waitForEnd(a)
		return
	}
	p.step.Migrate = append(p.step.Migrate, a.ID)
	p.wait(a, "it is about to be moved")
}

// waitForEnd explains why an allocation that leaves is still there.
func (p *planner) waitForEnd(a *structs.Allocation) {
	if !p.explain {
		return
	}
	if a.ServerTerminal() {
		p.wait(a, "it is stopping: "+p.stopping(a))
		return
	}
	p.wait(a, "the scheduler has not replaced it yet"+p.blocked(a))
}

// wait records why an allocation is still there, if somebody asks.
func (p *planner) wait(a *structs.Allocation, why string) {
	if !p.explain {
		return
	}

	p.waits = append(p.waits, structs.DrainWait{
		AllocID:   a.ID,
		Namespace: a.Namespace,
		JobID:     a.JobID,
		TaskGroup: a.TaskGroup,
		Reason:    why,
	})
}

// untilDeadline tells how long a batch job has to end by itself.
func (p *planner) untilDeadline(s *structs.DrainStrategy) string {
	if s.Deadline == 0 {
		return "; the drain has no deadline"
	}
	return " until the deadline at " + timeOf(s.ForceDeadline)
}

// timeOf returns a time that stays the same while a watch repeats the reason, unlike the time that is left.
func timeOf(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// blocked names the reason for which the job of an allocation waits for a place, "" if it does not.
func (p *planner) blocked(a *structs.Allocation) string {
	if !p.explain {
		return ""
	}

	e := state.BlockedEval(p.tx, a.Namespace, a.JobID)
	if e == nil || e.FailedTGAllocs[a.TaskGroup] == nil {
		return ""
	}

	// The first rejection counts the most nodes.
	rejections := e.FailedTGAllocs[a.TaskGroup].Rejections
	if len(rejections) == 0 {
		return "; its group waits for a place"
	}

	return fmt.Sprintf("; its group waits for a place: %s (%s)",
		rejections[0].Reason, count(rejections[0].Nodes, "node"))
}

// count joins a number and a noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
