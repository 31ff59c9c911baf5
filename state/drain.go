package state

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"berth/state/csi"
	"berth/state/lease"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/validate"
)

// DrainSubsystem is the subsystem of the events of drains.
const DrainSubsystem = "Drain"

// DrainingNodes yields the nodes that drain, by ID.
func DrainingNodes(tx Reader) iter.Seq[*structs.Node] {
	return schema.DrainingNodes.Scan(tx)
}

// NodeDrain starts, changes or cancels the drain of a node. A change keeps the start, and counts the deadline
// from now. A node that starts to drain becomes ineligible.
func NodeDrain(tx *WriteTx, p *structs.NodeDrainRequest) error {
	old, err := lease.FindNode(tx, p.NodeID, "")
	if err != nil {
		return err
	}

	err = validate.NodeDrain(p)
	if err != nil {
		return err
	}

	n := shallowCopy(old)
	now := time.Unix(0, p.Now).UTC()
	if p.DrainSpec == nil {
		cancelDrain(tx, n, p, now)
	} else {
		startDrain(tx, n, p, now)
	}

	if structs.NodeEqual(old, n, 0) {
		return nil
	}

	schema.Nodes.Put(tx, n)
	if n.Ready() && !old.Ready() {
		evaluateNode(tx, n.ID, true, p.Now)
	}

	return nil
}

func startDrain(tx *WriteTx, n *structs.Node, p *structs.NodeDrainRequest, now time.Time) {
	message := "Node drain strategy set"
	if n.DrainStrategy != nil {
		message = "Node drain strategy updated"
	}
	setDrain(n, *p.DrainSpec, p.Meta, now)
	addEvents(tx, n, serverEvent(DrainSubsystem, message, p.Now))
}

// setDrain gives a node the strategy of a drain that begins or changes now. The deadline counts from now in
// both cases.
func setDrain(n *structs.Node, spec structs.DrainSpec, meta map[string]string, now time.Time) {
	strategy := &structs.DrainStrategy{
		DrainSpec: spec,
		StartedAt: now,
	}

	if n.DrainStrategy != nil {
		strategy.StartedAt = n.DrainStrategy.StartedAt
	}

	if strategy.Deadline > 0 {
		strategy.ForceDeadline = now.Add(strategy.Deadline)
	}

	n.DrainStrategy = strategy
	n.Drain = true
	n.SchedulingEligibility = structs.NodeIneligible
	n.LastDrain = &structs.DrainMetadata{
		StartedAt: strategy.StartedAt,
		UpdatedAt: now,
		Status:    structs.DrainDraining,
		Meta:      maps.Clone(meta),
	}
}

// cancelDrain ends a drain, if there is one. A node that does not drain may become eligible by it.
func cancelDrain(tx *WriteTx, n *structs.Node, p *structs.NodeDrainRequest, now time.Time) {
	if n.DrainStrategy != nil {
		endDrain(n, structs.DrainCanceled, now)
		if len(p.Meta) > 0 { // the servers have added the drain's
			n.LastDrain.Meta = maps.Clone(p.Meta)
		}
		addEvents(tx, n, serverEvent(DrainSubsystem, "Node drain canceled", p.Now))
	}
	restoreOnStart(n, "") // the operator has decided
	if p.MarkEligible {
		makeEligible(n)
	}
}

// makeEligible lets a node take allocations again, CSI plugins among them.
func makeEligible(n *structs.Node) {
	n.SchedulingEligibility = structs.NodeEligible
	restoreOnStart(n, "")
	if n.LastDrain != nil && n.LastDrain.PluginsOff {
		last := *n.LastDrain
		last.PluginsOff = false
		n.LastDrain = &last
	}
}

// endDrain ends the drain of a node and records how it ended. The eligibility stays: the caller decides on
// it.
func endDrain(n *structs.Node, status string, now time.Time) {
	last := structs.DrainMetadata{StartedAt: n.DrainStrategy.StartedAt}
	if n.LastDrain != nil {
		last = *n.LastDrain
	}
	last.UpdatedAt = now
	last.Status = status
	n.LastDrain = &last
	n.DrainStrategy = nil
	n.Drain = false
}

// NodeDrained ends each drain of the request, unless a newer one took its place. The nodes stay ineligible.
func NodeDrained(tx *WriteTx, p *structs.NodeDrainedUpdate) error {
	for _, d := range p.Nodes {
		old := Node(tx, d.NodeID)
		if old == nil || old.DrainStrategy == nil ||
			!old.DrainStrategy.StartedAt.Equal(d.StartedAt) {
			continue
		}
		n := shallowCopy(old)
		endDrain(n, structs.DrainComplete, time.Unix(0, p.Now).UTC())
		n.LastDrain.PluginsOff = d.PluginsOff
		addEvents(tx, n, serverEvent(DrainSubsystem, "Node drain complete", p.Now))
		schema.Nodes.Put(tx, n)
	}
	return nil
}

// AllocsMigrate requests that allocations be stopped and placed again, and evaluates each of their jobs. It
// ignores allocations that have ended, are being stopped or are gone.
func AllocsMigrate(tx *WriteTx, p *structs.AllocsMigrateRequest) error {
	type scope struct{ ns, job, node string }
	evaluated := map[scope]bool{}
	for _, id := range p.AllocIDs {
		old := Alloc(tx, id)
		if old == nil || old.Terminal() || old.Migrate {
			continue
		}

		a := old.Copy()
		a.Migrate = true
		a.ModifyTime = p.Now
		putAlloc(tx, old, a)
		j := Job(tx, a.Namespace, a.JobID)
		if j == nil {
			continue
		}

		s := scope{ns: j.Namespace, job: j.ID}
		if j.PerNode() {
			s.node = a.NodeID // an evaluation of one node reads only that node
		}

		if evaluated[s] {
			continue
		}

		evaluated[s] = true
		e := structs.NewEval(j, structs.TriggerNodeDrain, p.Now)
		e.NodeID = s.node
		enqueueEval(tx, e, deriveID(tx, structs.TriggerNodeDrain, s.ns, s.job, s.node))
	}

	return NodeEvents(tx, &structs.NodeEventsRequest{Events: p.Events})
}

// NeedsPlugin reports whether a node that takes no allocations takes one of a group of a per-node job all the
// same: the group runs a CSI plugin, and the node may have volumes mounted that only this plugin can unmount.
// A drain that stops plugins by force gets none back, also after its end.
func NeedsPlugin(tx Reader, n *structs.Node, j *structs.Job, g *structs.TaskGroup) bool {
	ids := g.Plugins()
	if n.Status != structs.NodeReady || !j.PerNode() || len(ids) == 0 ||
		n.DrainStrategy != nil && n.DrainStrategy.ForcesPlugins() ||
		n.LastDrain != nil && n.LastDrain.PluginsOff {
		return false
	}
	if n.Returning {
		return true // also for volumes whose claims were released without it
	}
	for c := range csi.ClaimsByNode(tx, n.ID) {
		if csi.IsGranted(c) && slices.Contains(ids, c.PluginID) {
			return true
		}
	}
	return false
}

// HeldVolumes returns the number of volumes that a node may have staged, mounted or attached, or that its
// controller is attaching or detaching, and a text that names the first. 0: the node has let go of all.
func HeldVolumes(tx Reader, node string) (count int, first string) {
	held := map[string]bool{}
	note := func(ns, volume, how string) {
		if len(held) == 0 {
			first = fmt.Sprintf("volume %s of namespace %s is %s", volume, ns, how)
		}

		held[ns+"/"+volume] = true
	}

	for c := range csi.ClaimsByNode(tx, node) {
		if csi.IsGranted(c) {
			note(c.Namespace, c.VolumeID, "claimed by allocation "+structs.ShortID(c.AllocID))
		}
	}

	for a := range csi.AttachmentsByNode(tx, node) {
		note(a.Namespace, a.VolumeID, "attached")
	}

	// A call goes through a controller, which may be here while the volume is for another node. The
	// controller has to stay until the answer.
	for a := range csi.UnsettledAttachments(tx) {
		if a.Call != nil && a.Call.NodeID == node {
			note(a.Namespace, a.VolumeID, "in a call of the controller there, the "+a.Call.Op)
		}
	}

	return len(held), first
}
