package simulate

import (
	"slices"
	"strconv"

	"berth/fsm"
	"berth/internal/agentproof"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// disk is what an agent keeps to prove which one it is, as client/membership does. It is written at
// once. A copy of the value is a copy of the disk.
type disk struct {
	next, acked string // nonces
	rejected    bool
	marks       []string // the last one first; never changed in place
	markedIn    string   // the boot in which the last one was drawn
	forClaims   bool     // and whether it was drawn for a claim
}

// place is where an agent runs.
type place struct {
	machine     structs.MachineID
	boot, store string
}

// draw returns a nonce.
func (w *world) draw() string {
	w.drawn++
	return strconv.Itoa(w.drawn)
}

// load is the start of an agent. The first one in a boot draws a mark.
func (d *disk) load(w *world, at place) {
	if d.next == "" {
		d.next = w.draw()
	}
	if d.markedIn != at.boot {
		d.mark(w, at, false)
	}
}

func (d *disk) mark(w *world, at place, forClaims bool) {
	drawn := slices.Insert(slices.Clone(d.marks), 0, w.draw())
	d.marks = drawn[:min(len(drawn), structs.MaxMarks)]
	d.markedIn = at.boot
	d.forClaims = forClaims
}

// markClaims draws the mark that goes into the log with a claim.
func (d *disk) markClaims(w *world, at place) {
	if !d.forClaims {
		d.mark(w, at, true)
	}
}

// proof returns the proof of a request with the newest marks.
func (d *disk) proof(at place, marks int) *structs.AgentProof {
	return &structs.AgentProof{
		BootID:   at.boot,
		Machine:  at.machine,
		Store:    at.store,
		Nonce:    d.next,
		Previous: d.acked,
		Rejected: d.rejected,
		Marks:    d.marks[:min(len(d.marks), marks)],
	}
}

// answered notes an answer of the servers.
func (d *disk) answered(w *world, sent *structs.AgentProof, err error) {
	switch {
	case structs.CauseOf(err) == structs.CauseSecondAgent:
		d.rejected = true
	case err == nil:
		d.rejected = false
		if sent.Nonce == d.next {
			d.acked = d.next
			d.next = w.draw()
		}
	}
}

// asker is an agent that asks for the lease of a node.
type asker struct {
	n        *node
	copy     *duplicate // nil: it runs on the machine of the node
	proof    *structs.AgentProof
	cleanFor uint64
}

// newAsker makes the request of an agent. A heartbeat has two marks.
func newAsker(n *node, c *duplicate, d *disk, at place, registered bool) (a asker, serve procedure) {
	a = asker{
		n:    n,
		copy: c,
	}
	if registered {
		a.proof = d.proof(at, 2)
		if c == nil {
			a.cleanFor = n.cleanFor()
		}
		return a, a.beat
	}
	a.proof = d.proof(at, structs.MaxMarks)
	return a, a.register
}

// register is what the endpoint of registrations does.
func (a asker) register(l *leader, reply func(any, error)) {
	err := a.admit(l)
	if err == nil {
		err = propose(a.n.w, fsm.NodeRegister, a.n.row(a.proof))
	}
	if err != nil {
		reply(nil, err)
		return
	}
	l.grant(a, reply)
}

// beat is what the endpoint of heartbeats does.
func (a asker) beat(l *leader, reply func(any, error)) {
	w := a.n.w
	row := state.Node(w.store.Read(), a.n.id)
	var err error
	switch {
	case row == nil:
		err = structs.NotFoundf("there is no node %s", a.n.id)
	case row.Mark != "" && !slices.Contains(a.proof.Marks, row.Mark):
		err = structs.NotFoundf("the servers know an older registration of node %s", a.n.id)
	default:
		err = a.admit(l)
	}
	if err == nil && a.proof.BootID != row.BootID {
		err = structs.NotFoundf("node %s has not registered in this boot of its machine", a.n.id)
	}
	if err == nil && (row.Status != structs.NodeReady || row.Returning && a.cleanFor == row.Epoch) {
		err = propose(w, fsm.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs:      []string{a.n.id},
			Status:       structs.NodeReady,
			CleanFor:     a.cleanFor,
			WriteOptions: w.stamp(),
		})
	}
	if err != nil {
		reply(nil, err)
		return
	}
	l.grant(a, reply)
}

// admit asks the leader whether another agent has the lease of the node, or its volumes.
func (a asker) admit(l *leader) error {
	tx := a.n.w.store.Read()
	return l.leases.Admit(agentproof.Node{
		Row:        state.Node(tx, a.n.id),
		HasVolumes: csi.HasGrantedClaims(tx, a.n.id),
	}, a.proof)
}

// checkAgent asks the leader whether an agent may claim volumes for a node.
func (l *leader) checkAgent(n *node, proof *structs.AgentProof) error {
	row := state.Node(n.w.store.Read(), n.id)
	if row == nil {
		return structs.NotFoundf("there is no node %s", n.id)
	}
	err := row.CheckAgent(proof)
	if err != nil {
		return err
	}
	return l.leases.Admit(agentproof.Node{Row: row}, proof)
}
