package node

import (
	"cmp"
	"context"
	"strings"

	"berth/endpoints/rights"
	"berth/fsm"
	"berth/internal/agentproof"
	"berth/internal/level"
	"berth/structs"
	"berth/structs/validate/report"
)

// completeNode checks the report of a node on itself and fills in its gaps, in a copy that shares its maps.
// old is the known row, nil for a new node.
func completeNode(
	req *structs.NodeRegisterRequest,
	old *structs.Node,
) (*structs.Node, error) {
	if req.Node == nil {
		return nil, structs.Invalidf(
			"Node: nothing is given; expected the node to register")
	}

	node := new(*req.Node)
	err := checkNamed(node)
	if err == nil {
		err = checkAgent(node, req.Agent)
	}
	if err != nil {
		return nil, err
	}

	// The facts that the servers own come from the row. The agent cannot change them.
	node.DropServerFields()
	describeAgent(node, req.Agent)

	// An operator may have changed the eligibility. The agent's setting counts only for a new node.
	if old != nil {
		node.SchedulingEligibility = old.SchedulingEligibility
	}

	err = checkInstances(node.ID, "CSI", req.CSI)
	if err != nil {
		return nil, err
	}

	// Requests for logs are forwarded to this address.
	if strings.ContainsAny(node.HTTPAddr, "/\\?#@\"<> \t\r\n") {
		return nil, structs.Invalidf("Node.HTTPAddr is %.40q; expected host:port", node.HTTPAddr)
	}

	// These defaults are the dialect's.
	node.Datacenter = cmp.Or(node.Datacenter, "dc1")
	node.NodePool = cmp.Or(node.NodePool, structs.DefaultNodePool)
	node.Status = cmp.Or(node.Status, structs.NodeInit)
	node.SchedulingEligibility = cmp.Or(node.SchedulingEligibility, structs.NodeEligible)
	if node.Status != structs.NodeInit && node.Status != structs.NodeReady {
		return nil, structs.Invalidf(
			"Node.Status is %.40q; expected %q or %q",
			node.Status, structs.NodeInit, structs.NodeReady)
	}

	// For a known node it is the stored one, which was checked.
	if old == nil &&
		node.SchedulingEligibility != structs.NodeEligible &&
		node.SchedulingEligibility != structs.NodeIneligible {
		return nil, structs.Invalidf("Node.SchedulingEligibility is %.40q; expected %q or %q",
			node.SchedulingEligibility, structs.NodeEligible, structs.NodeIneligible)
	}

	// The bounds on sizes and numbers are common to all reports.
	return node, cmp.Or(report.Node(node), report.Agent(req.Agent))
}

// describeAgent gives the row of a node what the next leader knows its agent by.
func describeAgent(node *structs.Node, agent *structs.AgentProof) {
	node.BootID = agent.BootID
	node.Machine = agent.Machine
	node.Store = agent.Store
	if len(agent.Marks) > 0 {
		node.Mark = agent.Marks[0]
	}
}

// checkNamed rejects a node that could not be found, authenticated or shown.
func checkNamed(node *structs.Node) error {
	for _, required := range []struct{ path, value string }{
		{"ID", node.ID},
		{"SecretID", node.SecretID},
		{"Name", node.Name},
	} {
		if required.value == "" {
			return structs.Invalidf("Node.%s: nothing is given; expected a text", required.path)
		}
	}
	return nil
}

// checkAgent rejects the agent of a version before the first release, and one that does not say which it is.
func checkAgent(node *structs.Node, agent *structs.AgentProof) error {
	if node.Level() < level.First {
		return structs.Preconditionf("the agent of node %.40q has %s %d; these servers need %d or later: "+
			"update the agent", node.Name, structs.AttrNodeLevel, node.Level(), level.First)
	}
	return agentproof.CheckProof(agent)
}

// UpdateCSI records changes of the plugin instances on the calling node.
func (n Nodes) UpdateCSI(
	ctx context.Context,
	node *structs.Node,
	req *structs.NodeUpdateCSIRequest,
	_ *structs.Empty,
) (uint64, error) {
	err := checkInstances(req.NodeID, "Upserts", req.Upserts)
	if err != nil {
		return 0, err
	}

	// Those that the node may not report are removed, in case an earlier report has stored them.
	own, others := n.keepOwn(req.Upserts)
	req.Upserts = own
	req.Removes = append(req.Removes, others...)
	if !req.Unsure && node.Status != structs.NodeDown &&
		instancesUnchanged(n.Store.Read(), req) {
		return node.ModifyIndex, nil
	}
	return fsm.Propose(ctx, n.Raft, fsm.NodeUpdateCSI, req)
}

// keepOwn returns the instances that the node may report, and the keys of the others: none where no roles
// decide. It does not reject the report: a plugin may outlive the row of its allocation, and the node has
// others to report.
func (n Nodes) keepOwn(
	instances []*structs.CSIPluginInstance,
) (own []*structs.CSIPluginInstance, others []structs.CSIInstanceKey) {
	if !n.Roles {
		return instances, nil
	}

	// One snapshot for all instances: it is read again with each report, since allocations come and go.
	tx := n.Store.Read()
	for _, i := range instances {
		if rights.RunsPlugin(tx, i) {
			own = append(own, i)
			continue
		}

		others = append(others, i.Key())
		n.Logger.Warn("node reports a plugin that no allocation of it runs, ignoring it",
			"node_id", i.NodeID, "plugin_id", i.PluginID, "kind", i.Kind, "alloc_id", i.AllocID)
	}
	return own, others
}

// checkInstances rejects instances that are incomplete, that are on another node, or that are too many or too
// large.
func checkInstances(
	nodeID, path string,
	instances []*structs.CSIPluginInstance,
) error {
	// The servers call an instance by these fields.
	for i, c := range instances {
		if c == nil ||
			c.PluginID == "" ||
			c.NodeID != nodeID ||
			c.Kind != structs.CSIKindController && c.Kind != structs.CSIKindNode {
			return structs.Invalidf(
				"%s[%d]: expected an instance on the node itself, with PluginID and Kind",
				path, i)
		}
	}
	return report.Instances(nodeID, instances)
}
