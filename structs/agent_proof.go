package structs

// AgentProof tells the servers which agent of a node sends a heartbeat or a registration. Two agents have one
// node ID if a data directory was copied, or the disk of a machine was cloned. Only one of them may have the
// lease.
//
// The agent draws a new nonce each time the servers have acknowledged the last one, and writes it to its disk
// before it sends it. So a copy of the disk falls behind with the next heartbeat of the other agent. An agent
// that starts again, also after a reboot, reads from its disk the nonce that the servers know. A copy that is
// as new as the last heartbeat has that nonce as well, but not the machine, the boot and the store.
//
// A leader keeps the nonces of heartbeats in memory. Its successor knows what is in the row of the node: the
// machine, the boot, the store and the mark.
type AgentProof struct {
	// BootID is that of the kernel: /proc/sys/kernel/random/boot_id.
	BootID string
	// Store has the device and the inode of the directory in which the agent keeps its state, "2049:131".
	Store string `json:",omitempty"`
	// Nonce was drawn after the servers acknowledged Previous. It is the same one until they acknowledge it.
	Nonce    string
	Previous string `json:",omitempty"` // "": they have acknowledged none
	// Machine is the identity of the machine.
	Machine MachineID `json:",omitempty"`
	// Marks are the newest nonces that the agent drew for the log, the last one first: see Node.Mark. A
	// registration has MaxMarks of them, a heartbeat two.
	Marks []string `json:",omitempty"`
	// Rejected: the servers rejected the last request of this agent, with CauseSecondAgent.
	Rejected bool `json:",omitempty"`
}

// MaxMarks bounds AgentProof.Marks. An agent whose mark in the log is older, because the state of the servers
// was restored from an old archive, counts as a second agent.
const MaxMarks = 8

// FromAgent is the part of a request about the claims of a node that has the proof of the agent that sends
// it. The servers reject one of another agent than the one that they have accepted: its mark would lock that
// one out, and its release would free a volume that the other one has mounted.
type FromAgent struct {
	// Agent is nil where the servers send the request. The log has only the fields that OfLog keeps.
	Agent *AgentProof `json:",omitempty" codec:",omitempty"`
}

// SentAgent returns the proof of a request.
func (f *FromAgent) SentAgent() *AgentProof { return f.Agent }

// StampAgent sets the proof of a request.
func (f *FromAgent) StampAgent(p *AgentProof) { f.Agent = p }

// AgentRequest is a request of a node that has the proof of its agent: see FromAgent.
type AgentRequest interface {
	SentAgent() *AgentProof
	StampAgent(p *AgentProof)
}

// OfLog returns the fields of a proof that Node.CheckAgent compares, in a copy. The leader alone keeps
// nonces.
func (p *AgentProof) OfLog() *AgentProof {
	if p == nil {
		return nil
	}
	return &AgentProof{
		BootID:  p.BootID,
		Machine: p.Machine,
		Marks:   p.Marks,
	}
}

// Mark returns the newest mark, "" for none.
func (p *AgentProof) Mark() string {
	if p == nil || len(p.Marks) == 0 {
		return ""
	}
	return p.Marks[0]
}

// SecondAgent is an agent that asks for the lease of a node that another agent has, as it describes itself.
type SecondAgent struct {
	Name     string
	HTTPAddr string
	BootID   string
	Machine  MachineID `json:",omitempty"`
	Reason   string    // for which the servers reject it, with the remedy
}
