package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
)

// mostSaid bounds the words of an agent in a reason, in bytes.
const mostSaid = 300

// byOthers says who releases a volume for which the servers begin no fence.
const byOthers = "the word of an operator or the proof of a fence device releases it, " +
	"and the servers fence no node for it"

// lossExplainer explains the losses of nodes that hold volumes.
type lossExplainer struct{ *explainer }

// lostHolder explains a claim that a lost node holds: the loss, and who releases the claim.
func (x lossExplainer) lostHolder(r *structs.Reason, c *structs.CSIClaim) {
	r.Because = []*structs.Reason{x.nodeDown(c.NodeID)}
	v := csi.Volume(x.tx, c.Namespace, c.VolumeID)
	n := state.Node(x.tx, c.NodeID)
	switch {
	case n == nil || v == nil:
		r.Remedy = "if the node is off: " + csi.DetachCommand(c.Namespace, c.VolumeID, c.NodeID)
	case csi.LossPolicy(x.tx, v) == structs.LossFence && n.Unaccounted:
		held := reason("on_node_loss of volume %s is %s, but the node %s: only an operator has it fenced",
			v.ID, structs.LossFence, n.WhyUnaccounted())
		r.Because = append(r.Because, x.heldBack(held, n)...)
	case csi.LossPolicy(x.tx, v) == structs.LossFence:
		r.Because = append(r.Because, x.fence(v, n))
	case csi.LossPolicy(x.tx, v) == structs.LossLease:
		r.Because = append(r.Because, x.leaseEnd(c, n)...)
	default:
		held := reason("on_node_loss of volume %s is %s: %s", v.ID, structs.LossHold, byOthers)
		r.Because = append(r.Because, x.heldBack(held, n)...)
	}
}

// heldBack returns the reason for which the servers begin no fence for a claim, and the last run of a fence
// device for the node, if any: that an operator has ordered, or that began for another volume.
func (x lossExplainer) heldBack(held *structs.Reason, n *structs.Node) []*structs.Reason {
	held.Remedy = x.orders(n, "to prove it by a fence device: ")
	all := []*structs.Reason{held}
	last := x.lastRun(n)
	switch {
	case last != nil && last.State == cluster.FenceRunning:
		all = append(all, x.fencing(last))
	case last != nil:
		if !x.isFencedForAnother(n) {
			last = new(*last)
			last.NextTry = 0 // the servers run no device again by themselves
		}
		all = append(all, x.fenced(last, n))
	case state.FenceOrder(x.tx, n.ID) != nil:
		all = append(all, x.fenced(nil, n))
	}
	return all
}

// isFencedForAnother reports whether the servers try to fence a node again and again by themselves.
func (x lossExplainer) isFencedForAnother(n *structs.Node) bool {
	return !n.Unaccounted && state.IsFenceWanted(x.tx, n.ID)
}

// lastRun returns the newest run of a fence device for the present loss of a node, nil if there is none.
func (x lossExplainer) lastRun(n *structs.Node) (last *cluster.FenceRun) {
	for _, r := range state.FenceRuns(x.tx, n.ID) {
		// A run for an earlier loss proves nothing: the node was back since. Its epoch tells the losses
		// apart.
		if r.Epoch == n.Epoch && r.Kind == cluster.FenceByAgent {
			last = r
		}
	}
	return last
}

// leaseEnd explains a claim whose volume follows the end of the lease.
func (x lossExplainer) leaseEnd(c *structs.CSIClaim, n *structs.Node) []*structs.Reason {
	held := ""
	switch {
	case n.Unaccounted:
		held = "the node " + n.WhyUnaccounted()
	case c.Unguarded != "":
		held = "its node does not guard this claim: " + c.Unguarded
	case !c.Guarded:
		held = "the node reported no working guard for this claim, which ends its tasks with the lease"
	}

	if held != "" {
		r := reason("on_node_loss of volume %s is %s, but %s: %s", c.VolumeID, structs.LossLease, held,
			byOthers)
		return x.heldBack(r, n)
	}
	r := reason("node %s ends the tasks of the claim by itself when its lease has ended, "+
		"and the servers are about to release it", x.nodeName(n.ID))
	r.Remedy = "if this lasts for more than a minute, read the log of the server that leads; " +
		confirmRemedy(n)
	return []*structs.Reason{r}
}

func fenceCommand(n *structs.Node) string { return "berth node fence " + structs.ShortID(n.ID) }

// orders returns the commands that release the volumes of a lost node. Words lead to the command of a fence,
// if any.
func (x lossExplainer) orders(n *structs.Node, words string) string {
	if x.fences == nil || !x.fences(n) {
		return confirmRemedy(n)
	}
	return words + fenceCommand(n) + "; " + confirmRemedy(n)
}

func confirmRemedy(n *structs.Node) string {
	return `if the machine is off: berth node confirm-lost -reason "..." ` + structs.ShortID(n.ID)
}

// fence explains how far the servers are with a proof that a lost node can no longer write.
func (x lossExplainer) fence(v *structs.CSIVolume, n *structs.Node) *structs.Reason {
	last := x.lastRun(n)
	order := state.FenceOrder(x.tx, n.ID)
	switch {
	case last != nil && last.State == cluster.FenceRunning:
		return x.fencing(last)
	case order == nil && !state.IsWaitedFor(x.tx, v):
		r := reason("nobody waits for volume %s, so the servers do not fence node %s for it",
			v.ID, x.nodeName(n.ID))
		r.Remedy = x.orders(n, "to fence it all the same: ")
		return r
	case order == nil:
		// The brake holds only what the servers begin by themselves, not what an operator has ordered.
		if brake := state.FenceBrake(x.tx); brake != nil {
			return x.braked(brake, n)
		}
	}

	return x.fenced(last, n)
}

// fencing explains a run of a fence device that has not ended.
func (x lossExplainer) fencing(run *cluster.FenceRun) *structs.Reason {
	r := reason("fence device %s is being tried for %s", run.Device, x.since(run.Begun))
	r.Remedy = "wait for its end: berth node status " + structs.ShortID(run.NodeID)
	return r
}

// braked explains that the servers fence no node by themselves.
func (x lossExplainer) braked(b *cluster.FenceBrake, n *structs.Node) *structs.Reason {
	r := reason("the servers fence no node by themselves: %d of %d nodes were lost within %d minutes, "+
		"since %s ago, so the fault may be on their side",
		b.Lost, b.Of, cluster.FenceBrakeWindow/60, x.since(b.Since*1e9))
	r.Remedy = "mend the network of the servers, or " + x.orders(n, "decide for each node: ")
	return r
}

// fenced explains the last run of a fence device, nil for none, and the next one.
func (x lossExplainer) fenced(last *cluster.FenceRun, n *structs.Node) *structs.Reason {
	if last == nil {
		r := reason("the servers are about to fence node %s", x.nodeName(n.ID))
		r.Remedy = "if this lasts: berth node status " + structs.ShortID(n.ID)
		return r
	}

	var again passing
	if last.NextTry != 0 {
		at := x.until(last.NextTry)
		again = passing{text: "; the next attempt " + at.text}
	}
	now := x.orders(n, "to try now: ")
	switch {
	case last.Cause == cluster.FenceCauseNoDevice:
		r := reason("no fence device of the servers matches node %s and covers the volume%s",
			x.nodeName(n.ID), again)
		r.Remedy = "add a fencing block to the configuration of the servers; " + confirmRemedy(n)
		return r
	case last.State == cluster.FenceProved:
		r := reason("the proof of fence device %s does not cover the volume%s", last.Device, again)
		r.Remedy = now
		return r
	case last.Output == "":
		r := reason("fence device %s gave no proof: %s%s", last.Device, last.Reason, again)
		r.Remedy = now
		return r
	}

	r := reason("fence device %s gave no proof: %s: %s%s", last.Device, cmp.Or(last.Reason, last.Cause),
		structs.Cut(strings.Join(strings.Fields(last.Output), " "), mostSaid), again)
	r.Remedy = now
	return r
}

// mostSearched bounds the nodes whose allocations are searched: the first ones that are ready.
const mostSearched = 64

// The dimensions of structs.AllocMetric that have holders.
const (
	dimensionPorts   = "ports"
	dimensionDevices = "devices"
)

// search looks for the allocations that have what a group of a job needs.
type search struct {
	*jobExplainer
	group     *structs.TaskGroup
	ports     bool
	devices   bool
	displaces bool // whether it looks for less important allocations
	found     sample
	important bool // the group fits in the place of less important allocations
}

// holders explains which allocations have the static ports and the devices that a group needs, that its
// canaries wait for the group itself, and that it may not displace others. The scheduler's figures tell what
// is exhausted.
func (x *jobExplainer) holders(
	j *structs.Job, g *structs.TaskGroup, m *structs.AllocMetric,
) []*structs.Reason {
	if g == nil {
		return nil
	}

	config := state.SchedulerConfig(x.tx).PreemptionConfig
	s := &search{
		jobExplainer: x,
		group:        g,
		ports:        m.DimensionExhausted[dimensionPorts] > 0,
		devices:      m.DimensionExhausted[dimensionDevices] > 0,
		displaces:    !config.Enabled(j.Type),
	}

	// The promotion comes first: until then nothing that others free helps the group on this node.
	if r := s.ownCanary(m); r != nil {
		return []*structs.Reason{r}
	}

	older := s.predecessors(m)
	if len(m.DimensionExhausted) == 0 {
		return older
	}

	for n := range x.candidates(j) {
		s.searchNode(n)
	}

	reasons := append(s.found.list("holders"), older...)
	if s.important {
		r := reason("it fits in the place of others, which its priority %d exceeds by %d or more, "+
			"but jobs of type %s may not displace them", j.Priority, structs.PreemptionGap, j.Type)
		r.Remedy = fmt.Sprintf("berth operator scheduler set-config -preempt-%s-scheduler=true", j.Type)
		reasons = append(reasons, r)
	}

	return reasons
}

// searchNode adds the holders on one node, and whether the group fits there in the place of others.
func (s *search) searchNode(n *structs.Node) {
	if s.ports {
		s.searchPorts(n)
	}
	for a := range state.AllocsByNode(s.tx, n.ID) {
		if s.devices && !a.ClientTerminal() {
			s.searchDevices(a)
		}
	}
	s.important = s.important || s.displaces && s.fitsWithout(n, s.isLower)
}

// searchPorts finds the holders by the index of ports in use, without a pass over the allocations.
func (s *search) searchPorts(n *structs.Node) {
	use := state.PortsInUse(s.tx, n)
	for _, demand := range s.group.PortDemands() {
		if !demand.Static() {
			continue
		}

		for _, address := range n.HostAddresses(demand.HostNetwork) {
			holder := state.Alloc(s.tx, use.HolderOf(address, demand.Value))
			if holder != nil {
				s.found.add(s.holder(holder, fmt.Sprintf("port %d of %s", demand.Value, address.Address)))
			}
		}
	}
}

func (s *search) searchDevices(a *structs.Allocation) {
	for _, task := range slices.Sorted(maps.Keys(a.Devices)) {
		for _, d := range a.Devices[task] {
			if s.demands(d) {
				s.found.add(s.holder(a, fmt.Sprintf("%s of %s", count(len(d.DeviceIDs), "device"), d.ID())))
			}
		}
	}
}

// demands reports whether a task of the group demands devices such as these.
func (s *search) demands(d *structs.AllocatedDeviceResource) bool {
	group := &structs.NodeDeviceResource{Vendor: d.Vendor, Type: d.Type, Name: d.Name}
	matches := func(r *structs.RequestedDevice) bool { return r.Matches(group) }
	return slices.ContainsFunc(s.group.Tasks, func(t *structs.Task) bool {
		return t.Resources != nil && slices.ContainsFunc(t.Resources.Devices, matches)
	})
}

// holder explains that an allocation has a thing of its node, which another one needs.
func (x *explainer) holder(a *structs.Allocation, thing string) *structs.Reason {
	r := reason("%s on node %s has %s", x.reader.allocOf(a), x.nodeName(a.NodeID), thing)
	x.freeing(r, a, "add nodes, lower the count, or change what its groups ask for")
	return r
}

// freeing adds to the reason that an allocation has a thing how the thing becomes free. It advises no stop of
// an allocation that stops already, nor of the job that is explained, whose way out is another one.
func (x *explainer) freeing(r *structs.Reason, a *structs.Allocation, wayOut string) {
	switch {
	case !x.reader.seesNamespace(a.Namespace):
		r.Remedy = wayOut
	case a.ServerTerminal():
		r.Text += ", and is stopping"
		r.Remedy = x.endingRemedy(a)
	case x.isOwn(a):
		r.Remedy = x.ownWayOut(a, wayOut)
	default:
		r.Remedy = "it is free when that allocation ends: " + command(a.Namespace, "job stop", a.JobID)
	}
}
