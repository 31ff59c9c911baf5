package state

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/internal/codec"
	"berth/state/csi"
	"berth/state/lease"
	"berth/state/schema"
	"berth/state/sharing"
	"berth/state/unblock"
	"berth/structs"
)

// keptEvents is the number of events that a node's history has at most.
const keptEvents = 10

// Node returns the node, nil if there is none.
func Node(tx Reader, id string) *structs.Node {
	return schema.Nodes.Get(tx, id)
}

// Nodes yields every node by ID.
func Nodes(tx Reader) iter.Seq[*structs.Node] {
	return schema.Nodes.Scan(tx)
}

// NodeFrom returns the first node by ID, from one on, nil if there is none.
func NodeFrom(tx Reader, from string) *structs.Node {
	return schema.Nodes.Seek(tx, from).Next()
}

// DownNodes yields the nodes that are down and accounted for, by the time at which they went down.
func DownNodes(tx Reader) iter.Seq[*structs.Node] {
	return schema.NodesByDown.Scan(tx)
}

// NodeDetail returns a node with its plugin instances and its class.
func NodeDetail(tx Reader, n *structs.Node) *structs.NodeDetail {
	d := &structs.NodeDetail{
		Node:                 *n,
		CSIControllerPlugins: map[string]*structs.CSIInfo{},
		CSINodePlugins:       map[string]*structs.CSIInfo{},
	}
	d.ComputedClass = computedClass(n)
	for i := range csi.InstancesByNode(tx, n.ID) {
		half := d.CSINodePlugins
		if i.Kind == structs.CSIKindController {
			half = d.CSIControllerPlugins
		}
		half[i.PluginID] = &i.CSIInfo
	}
	return d
}

// computedClass returns a digest of all inputs of constraints, except attributes and meta whose names begin
// with "unique.". Nodes of one class are equal for a job. No row stores it, because it would have to change
// with each of the inputs.
func computedClass(n *structs.Node) string {
	unique := func(key, _ string) bool {
		return strings.HasPrefix(key, "unique.")
	}

	attributes := maps.Clone(n.Attributes)
	maps.DeleteFunc(attributes, unique)
	meta := maps.Clone(n.Meta)
	maps.DeleteFunc(meta, unique)
	inputs := []any{
		n.Datacenter,
		n.NodeClass,
		n.NodePool,
		attributes,
		meta,
	}

	if devices := deviceClass(n); len(devices) > 0 {
		inputs = append(inputs, devices)
	}

	if networks := n.HostNetworks(); len(networks) > 0 {
		inputs = append(inputs, networks)
	}

	if modes := n.NetworkModes(); len(modes) > 0 {
		inputs = append(inputs, "network modes", modes)
	}

	if len(n.HostVolumes) > 0 {
		names := map[string]bool{} // with whether each is read-only; paths differ from node to node
		for name, v := range n.HostVolumes {
			names[name] = v.ReadOnly
		}

		inputs = append(inputs, names)
	}

	b, err := codec.Encode(inputs)
	if err != nil {
		panic(err) // texts, numbers and maps of them always encode
	}

	sum := sha256.Sum256(b)
	return fmt.Sprintf("v1:%x", sum[:16])
}

// deviceClass returns the device groups of a node without what differs from node to node: the devices with
// their IDs and health, and attributes whose names begin with "unique.".
func deviceClass(n *structs.Node) []*structs.NodeDeviceResource {
	var groups []*structs.NodeDeviceResource
	for _, g := range devicesOf(n) {
		attributes := map[string]*structs.DeviceAttribute{} // also for nil, which has another encoding
		for name, a := range g.Attributes {
			if !strings.HasPrefix(name, "unique.") {
				attributes[name] = a
			}
		}
		groups = append(groups, &structs.NodeDeviceResource{
			Vendor:     g.Vendor,
			Type:       g.Type,
			Name:       g.Name,
			Attributes: attributes,
		})
	}
	return groups
}

// devicesOf returns the device groups of a node. Rows with equal resources share them (sharing.NodeReport),
// so that a change of something else compares pointers.
func devicesOf(n *structs.Node) []*structs.NodeDeviceResource {
	if n.NodeResources == nil {
		return nil
	}
	return n.NodeResources.Devices
}

// serverEvent returns an event of the servers, at a time in UnixNano.
func serverEvent(subsystem, message string, now int64) *structs.NodeEvent {
	return &structs.NodeEvent{
		Message:   message,
		Subsystem: subsystem,
		Timestamp: time.Unix(0, now).UTC(),
	}
}

// addEvents appends to the history of a row that is not yet in the table. It does not change the events of
// the row's last version.
func addEvents(tx *WriteTx, n *structs.Node, events ...*structs.NodeEvent) {
	all := make([]*structs.NodeEvent, 0, len(n.Events)+len(events))
	all = append(all, n.Events...)
	for _, e := range events {
		if e == nil {
			continue
		}
		c := sharing.NodeEvent(e)
		c.CreateIndex = tx.Index
		all = append(all, c)
	}
	surplus := max(0, len(all)-keptEvents)

	// A part of the longer list would keep the surplus events in memory.
	n.Events = slices.Clone(all[surplus:])
}

// shallowCopy returns a shallow copy of a row for changes of fields. The copy and the row share the values
// behind pointers.
func shallowCopy(n *structs.Node) *structs.Node {
	return new(*n)
}

// NodeDeregister deletes nodes with their plugin instances. It rejects a node on which an allocation may
// still run, or whose claims are not released. A missing node counts as deleted.
func NodeDeregister(tx *WriteTx, p *structs.NodeDeregisterRequest) error {
	for _, id := range p.NodeIDs {
		n := Node(tx, id)
		if n == nil {
			continue
		}
		held := LeftOnNode(tx, id)
		if held != "" {
			return structs.Preconditionf("node %q has %s", id, held)
		}
		deleteNode(tx, n, p.Now)
	}
	return nil
}

// LeftOnNode names an allocation or a claim that is left on a node, and returns "" if there is none.
func LeftOnNode(tx Reader, id string) string {
	for a := range AllocsByNode(tx, id) {
		if !a.ClientTerminal() {
			return "allocation " + a.ID + ", which has not ended"
		}
	}
	c := schema.ClaimsByNode.First(tx, id)
	if c != nil {
		return "a claim of volume " + c.VolumeID + " for allocation " + c.AllocID + ", which is not released"
	}
	return ""
}

func deleteNode(tx *WriteTx, n *structs.Node, now int64) {
	// The row of the node names its instances, so it goes after them.
	for i := range csi.InstancesByNode(tx, n.ID) {
		csi.RemoveInstance(tx, i, now)
	}
	schema.Nodes.Delete(tx, n)
	lease := schema.NodeLeases.Get(tx, n.ID)
	if lease != nil {
		schema.NodeLeases.Delete(tx, lease)
	}
	deleteFences(tx, n.ID)
	unblock.Delete(tx, structs.WakeNode(n.ID))
}

// NodeStatus changes the state of nodes. Plugin instances of a down node become unhealthy, because no server
// can call them. If a node comes back, its jobs are evaluated and its capacity is free again. Unknown nodes
// are ignored.
func NodeStatus(tx *WriteTx, p *structs.NodeStatusUpdate) error {
	known := []string{
		structs.NodeInit,
		structs.NodeReady,
		structs.NodeDown,
		structs.NodeDisconnected,
	}

	if !slices.Contains(known, p.Status) {
		return structs.Invalidf("%q is not the status of a node", p.Status)
	}

	for _, id := range p.NodeIDs {
		n := Node(tx, id)
		if n != nil && n.Unaccounted && p.Accounted {
			n = shallowCopy(n)
			n.Unaccounted = false
			n.Leftovers = nil
			schema.Nodes.Put(tx, n)
		}

		if n != nil && n.Status != p.Status {
			setNodeStatus(tx, shallowCopy(n), p)
			continue
		}

		if n != nil && n.Returning && p.CleanFor != 0 && p.CleanFor == n.Epoch {
			endReturn(tx, shallowCopy(n), p.Now)
		}
	}

	return nil
}

func setNodeStatus(tx *WriteTx, n *structs.Node, p *structs.NodeStatusUpdate) {
	if n.Lost() { // the status is another one
		nodeCameBack(tx, n.ID, p.Now)
		n.Returning = true
	}
	n.Epoch = epochAfter(tx, n, p.Status)
	n.Status = p.Status
	n.StatusUpdatedAt = p.Now / int64(time.Second)
	addEvents(tx, n, p.Event)
	schema.Nodes.Put(tx, n)
	switch p.Status {
	case structs.NodeDown:
		csi.DownInstances(tx, n.ID, p.Now)
		markStoppingLost(tx, n.ID, p.Now)
		evaluateNode(tx, n.ID, false, p.Now)
	case structs.NodeReady:
		csi.ReviveInstances(tx, n.ID, p.Now)
		evaluateNode(tx, n.ID, true, p.Now)
	}
}

// markStoppingLost marks the stopping allocations of a node that went down as lost: no report of their end
// will come, and no job waits for them. The evaluations of the jobs decide about the others.
func markStoppingLost(tx *WriteTx, node string, now int64) {
	for old := range AllocsByNode(tx, node) {
		if old.ServerTerminal() && !old.ClientTerminal() {
			a := old.Copy()
			a.ClientStatus = structs.AllocLost
			a.ClientDescription = schema.NodeIsDown
			a.ModifyTime = now
			putAlloc(tx, old, a)
		}
	}
}

// NodeEligibility allows or forbids new placements on a node.
func NodeEligibility(tx *WriteTx, p *structs.NodeEligibilityRequest) error {
	if p.Eligibility != structs.NodeEligible &&
		p.Eligibility != structs.NodeIneligible {
		return structs.Invalidf(
			"eligibility %q is neither %s nor %s",
			p.Eligibility, structs.NodeEligible, structs.NodeIneligible)
	}

	n, err := lease.FindNode(tx, p.NodeID, "")
	if err != nil || n.SchedulingEligibility == p.Eligibility && !HasLeft(n) && !n.Returning {
		return err
	}

	if n.Drain && p.Eligibility == structs.NodeEligible {
		return structs.Preconditionf("node %q is draining", p.NodeID)
	}

	n = shallowCopy(n)
	n.SchedulingEligibility = p.Eligibility
	restoreOnStart(n, p.Eligibility) // the operator has decided
	if p.Eligibility == structs.NodeEligible {
		makeEligible(n)
		n.Returning = false // the operator has decided, in place of the report that it is clean
	}

	text := "Node marked as " + p.Eligibility + " for scheduling"
	addEvents(tx, n, serverEvent("Cluster", text, p.Now))
	schema.Nodes.Put(tx, n)
	if n.Ready() {
		evaluateNode(tx, n.ID, true, p.Now)
	}

	return nil
}

// NodeEvents appends to the histories of nodes. Unknown nodes are ignored.
func NodeEvents(tx *WriteTx, p *structs.NodeEventsRequest) error {
	for _, id := range slices.Sorted(maps.Keys(p.Events)) {
		n := Node(tx, id)
		if n == nil || len(p.Events[id]) == 0 {
			continue
		}
		n = shallowCopy(n)
		addEvents(tx, n, p.Events[id]...)
		schema.Nodes.Put(tx, n)
	}
	return nil
}

// evaluateNode puts an evaluation for every job that a change of the node concerns. With capacityFreed it
// also unblocks the evaluations that wait for capacity.
func evaluateNode(tx *WriteTx, node string, capacityFreed bool, now int64) {
	if capacityFreed && schema.JobsPerNode.Has(tx) {
		unblock.Key(tx, structs.WakeNodes)
	}
	for _, e := range NodeEvals(tx, node, capacityFreed, now) {
		enqueueEval(tx, e, deriveID(tx, "node-update", e.Namespace, e.JobID, node))
	}
	if capacityFreed {
		unblock.Capacity(tx, node)
	}
}

// NodeEvals returns one evaluation, without an ID, for every job with allocations on the node and, if the
// node has new capacity, for every per-node job.
func NodeEvals(tx Reader, node string, capacityFreed bool, now int64) []*structs.Evaluation {
	var out []*structs.Evaluation
	seen := map[structs.JobKey]bool{}
	evaluate := func(j *structs.Job) {
		if j == nil {
			return
		}

		key := structs.JobKey{
			Namespace: j.Namespace,
			ID:        j.ID,
		}

		if seen[key] {
			return
		}

		seen[key] = true
		e := structs.NewEval(j, structs.TriggerNodeUpdate, now)
		e.NodeID = node
		out = append(out, e)
	}

	// A job may be purged while its allocations have still to stop. Then only their versions are left.
	for a := range LiveAllocsByNode(tx, node) {
		evaluate(cmp.Or(Job(tx, a.Namespace, a.JobID), JobOf(tx, a)))
	}

	for j := range schema.JobsPerNode.Scan(tx) {
		if capacityFreed && !j.Stop {
			evaluate(j)
		}
	}

	return out
}
