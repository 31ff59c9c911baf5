package node

import (
	"slices"

	"berth/endpoints/join"
	"berth/internal/agentproof"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate/report"
)

// admitRegistration is admit for a registration. Operators see an agent that it rejects.
func (n Nodes) admitRegistration(old, node *structs.Node, agent *structs.AgentProof) error {
	err := n.admit(old, agent)
	if structs.CauseOf(err) == structs.CauseSecondAgent {
		// The node of a rejected agent has a row that another agent keeps up to date. The rejected one would
		// be seen only in its own log.
		n.Leases.NoteSecond(node.ID, agent, structs.SecondAgent{
			Name:     node.Name,
			HTTPAddr: node.HTTPAddr,
			BootID:   node.BootID,
			Machine:  node.Machine,
			Reason:   err.Error(),
		})
	}

	// These are about the certificate with which the node has joined, and not about its agent.
	if err == nil {
		err = join.CheckNode(n.Store.Read(), node)
	}
	if err == nil && n.Roles {
		err = join.CheckUnrecorded(n.Store.Read(), old, node)
	}
	return err
}

// admit rejects an agent while another one has the lease of the node, or its volumes. row is nil for a new
// node.
func (n Nodes) admit(row *structs.Node, agent *structs.AgentProof) error {
	if row == nil {
		return nil
	}

	tx := n.Store.Read()
	pool := state.NodePool(tx, row.NodePool)
	return n.Leases.Admit(agentproof.Node{
		Row:            row,
		HasVolumes:     csi.HasGrantedClaims(tx, row.ID),
		AskAfterReboot: pool != nil && pool.Reboot == cluster.RebootAsk,
	}, agent)
}

// admitHeartbeat rejects the heartbeat of a second agent, and of an agent whose boot the row does not have:
// it has to register.
func (n Nodes) admitHeartbeat(node *structs.Node, agent *structs.AgentProof) error {
	err := agentproof.CheckProof(agent)
	if err == nil {
		err = report.Agent(agent)
	}
	// A registration has all marks, a heartbeat the newest. After a restore the row may have an older one.
	if err == nil && node.Mark != "" && !slices.Contains(agent.Marks, node.Mark) {
		err = structs.NotFoundf("the servers know an older registration of node %s", node.ID)
	}
	if err == nil {
		err = n.admit(node, agent)
	}
	// The boot in the row says which mounts and processes can be left. Only a registration changes it.
	if err == nil && agent.BootID != node.BootID {
		err = structs.NotFoundf("node %s has not registered in this boot of its machine", node.ID)
	}
	return err
}
