package node

import (
	"berth/endpoints/join"
	"berth/state/csi"
	"berth/structs"
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
	// Package admission says how the volumes decide.
	hasVolumes := row != nil && csi.HasGrantedClaims(n.Store.Read(), row.ID)
	return n.Leases.Admit(row, hasVolumes, agent)
}

// admitHeartbeat rejects the heartbeat of a second agent, and of an agent whose boot the row does not have:
// it has to register.
func (n Nodes) admitHeartbeat(node *structs.Node, agent *structs.AgentProof) error {
	err := report.Agent(agent)
	if err == nil {
		err = n.admit(node, agent)
	}
	// The boot in the row says which mounts and processes can be left. Only a registration changes it.
	if err == nil && agent != nil && agent.BootID != node.BootID {
		err = structs.NotFoundf("node %s has not registered in this boot of its machine", node.ID)
	}
	return err
}
