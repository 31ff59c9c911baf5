package state

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/state/csi"
	"berth/state/schema"
	"berth/state/sharing"
	"berth/state/trust"
	"berth/structs"
)

// NodeRegister creates or updates a node with its plugin instances. The fields of the servers (eligibility,
// drain, history) stay. The jobs of a node are evaluated if it is new, comes back, or has changed in a
// property that placement depends on. An equal registration changes nothing.
func NodeRegister(tx *WriteTx, p *structs.NodeRegisterRequest) error {
	if p.Node == nil || p.Node.ID == "" {
		return structs.Invalidf("a node needs an ID")
	}

	old := Node(tx, p.Node.ID)
	if old != nil && old.SecretID != p.Node.SecretID {
		return structs.Deniedf("the secret is not that of node %q", p.Node.ID)
	}

	report := &structs.NodeUpdateCSIRequest{
		Upserts:      p.CSI,
		Full:         true,
		WriteOptions: p.WriteOptions,
	}
	was := nodeHealth{old, instancesOf(tx, old, report)}
	now := was
	n := registeredNode(tx, old, p)

	// The row names the instances (csi.InstancesByNode), so it is stored before they are.
	n.SetCSIInstances(reportedHalves(tx, old, report))
	changed := old == nil || !structs.NodeEqual(old, n, 0)
	if changed {
		sharing.NodeReport(n)
		schema.Nodes.Put(tx, n)
		now.node = n
	}
	trust.BindPool(tx, n)

	err := csi.UpdateInstances(tx, old, n, report)
	if err != nil {
		return err
	}

	if old != nil {
		now.instances = instancesOf(tx, n, report)
		recordChanges(tx, n.ID, was, now, p.Now)
	}
	if !changed || n.Status != structs.NodeReady {
		return nil
	}

	if old == nil || old.Status != structs.NodeReady ||
		!sameForPlacement(old, n) {
		evaluateNode(tx, n.ID, true, p.Now)
	}

	return nil
}

// registeredNode returns the row of a node after a registration, without its plugin instances. old is the
// stored row, nil for a new node. The end of a loss voids the runs to fence the node.
func registeredNode(tx *WriteTx, old *structs.Node, p *structs.NodeRegisterRequest) *structs.Node {
	n := shallowCopy(p.Node)
	event := mergeNode(n, old, p.Now)

	// mergeNode has decided on the status, which may end the loss of the node.
	n.Epoch = epochAfter(tx, old, n.Status)
	if old.Lost() && !n.Lost() {
		nodeCameBack(tx, n.ID, p.Now)
		n.Returning = old != nil
	}

	if event != "" {
		addEvents(tx, n, serverEvent("Cluster", event, p.Now))
	}

	if old == nil && p.Inventory != nil {
		// The servers deleted the node before, or a restore returned to a state without it.
		n.Unaccounted = Unclaimed(tx, n.ID, p.Inventory) != "" ||
			len(p.Inventory.Left) > 0
		if n.Unaccounted {
			n.Leftovers = leftoversOf(p.Inventory)
		}
	}

	return n
}

// mergeNode fills in the fields of the servers from the stored row, and returns the event for the node's
// history.
func mergeNode(n, old *structs.Node, now int64) string {
	n.Status = cmp.Or(n.Status, structs.NodeReady)
	if old == nil {
		n.SchedulingEligibility = cmp.Or(n.SchedulingEligibility, structs.NodeEligible)
		n.Unaccounted = false
		n.Leftovers = nil
		n.Returning = false
		n.Drain = false
		n.DrainStrategy = nil
		n.LastDrain = nil
		n.Events = nil
		n.StatusUpdatedAt = now / int64(time.Second)
		return "Node registered"
	}

	n.SchedulingEligibility = old.SchedulingEligibility
	n.Drain = old.Drain
	n.DrainStrategy = old.DrainStrategy
	n.LastDrain = old.LastDrain
	n.Events = old.Events
	n.Unaccounted = old.Unaccounted
	n.Leftovers = old.Leftovers
	n.Returning = old.Returning
	n.StatusUpdatedAt = old.StatusUpdatedAt
	n.StatusDescription = old.StatusDescription
	n.Indexes = old.Indexes
	if old.Status == structs.NodeReady {
		n.Status = structs.NodeReady
	}

	if old.Status == n.Status {
		return ""
	}

	n.StatusUpdatedAt = now / int64(time.Second)
	n.StatusDescription = ""
	return "Node re-registered"
}

// sameForPlacement reports whether the scheduler would decide the same with both rows, so that no evaluation
// is due. structs.NodeEqual reports whether a row has to be written at all: readers see a changed address or
// description, but no placement depends on it.
func sameForPlacement(a, b *structs.Node) bool {
	runs := func(x, y *structs.DriverInfo) bool {
		if x == nil || y == nil {
			return x == y
		}
		return x.Detected == y.Detected && x.Healthy == y.Healthy
	}
	return a.Name == b.Name &&
		a.NodeClass == b.NodeClass &&
		a.ComputedClass == b.ComputedClass &&
		a.NodePool == b.NodePool &&
		a.Datacenter == b.Datacenter &&
		maps.Equal(a.Attributes, b.Attributes) &&
		maps.Equal(a.Meta, b.Meta) &&
		maps.EqualFunc(a.Drivers, b.Drivers, runs) &&
		a.Available().Equal(b.Available()) &&
		slices.EqualFunc(devicesOf(a), devicesOf(b), structs.SameDevices) &&
		structs.SamePorts(a, b) &&
		structs.SameHostVolumes(a, b) &&
		a.Ready() == b.Ready()
}
