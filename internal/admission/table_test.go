package admission

import (
	"testing"
	"time"

	"berth/structs"
)

// The table has the answers of the servers to an agent that has the ID of a node.
const (
	takes   = "takes it"  // it has the node, with its volumes
	waits   = "waits"     // for the end of a lease, and asks again
	asksFor = "no second" // it is a second agent: it waits for the end of the lease, or for a proof
)

// The agent of node "n" ran on machine m1 in boot b1 when it last registered. It drew the mark "claim" for
// its first claim, after the mark "boot". The nonces are k, then l.
var (
	claimed = []string{"claim", "boot"}
	running = structs.Node{ID: "n", Status: structs.NodeReady, BootID: "b1", Machine: m1, Mark: "claim"}
)

const (
	m1 = structs.MachineID("product:1 machine:1")
	m2 = structs.MachineID("product:2 machine:1") // the disk brought its machine-id along
)

// agentOn returns the proof of an agent with a nonce and the one before it.
func agentOn(machine structs.MachineID, boot, nonce, previous string, marks []string) *structs.AgentProof {
	return &structs.AgentProof{BootID: boot, Machine: machine, Nonce: nonce, Previous: previous, Marks: marks}
}

// changed returns a row with a change.
func changed(n structs.Node, change func(*structs.Node)) *structs.Node {
	change(&n)
	return &n
}

// The table of docs/operations/lost-nodes.md: every way in which an agent may turn up, with what is done. A
// leader that has changed has no Last.
func TestCheck_Table(t *testing.T) {
	same := func(*structs.Node) {}
	takenByCopy := func(n *structs.Node) {
		n.Machine = m2
		n.BootID = "b9"
		n.Mark = "boot9"
	}
	beforeReboot := func(n *structs.Node) {
		n.Status = structs.NodeDown
		n.BootID = "b0"
		n.Mark = "boot"
	}
	lost := func(n *structs.Node) { n.Status = structs.NodeDown }
	knows := func(counts time.Duration) *Last {
		return &Last{AgentProof: *agentOn(m1, "b1", "k", "j", claimed), Counts: counts}
	}
	ended := knows(0)
	counted := knows(time.Second)
	next := func(machine structs.MachineID, boot string, marks []string) *structs.AgentProof {
		return agentOn(machine, boot, "l", "k", marks)
	}
	older := func(machine structs.MachineID, boot string) *structs.AgentProof {
		return agentOn(machine, boot, "c", "b", claimed)
	}
	rebooted := append([]string{"boot2"}, claimed...)

	for _, c := range []struct {
		name    string
		row     *structs.Node
		last    *Last
		given   *structs.AgentProof
		volumes bool
		ask     bool
		want    string
	}{
		{"restart of the agent", changed(running, same), counted, next(m1, "b1", claimed), true, false, takes},
		{"restart, the leader has changed",
			changed(running, same), nil, next(m1, "b1", claimed), true, false, takes},
		{"restart of the agent of a lost node, the leader has changed",
			changed(running, lost), nil, next(m1, "b1", claimed), true, false, takes},
		{"reboot within the lease", changed(running, same), counted, next(m1, "b2", rebooted), true, false, waits},
		{"reboot within the grace", changed(running, same), ended, next(m1, "b2", rebooted), true, false, takes},
		{"reboot of a lost node", changed(running, lost), ended, next(m1, "b2", rebooted), true, false, takes},
		{"reboot, the leader has changed",
			changed(running, same), nil, next(m1, "b2", rebooted), true, false, waits},
		{"cold start of all: reboot of a lost node, the leader has changed",
			changed(running, lost), nil, next(m1, "b2", rebooted), true, false, takes},
		{"restored machine, in the state from before the first claim",
			changed(running, lost), nil, next(m1, "b2", []string{"boot2", "boot"}), true, false, asksFor},
		{"restored machine, the node has no volumes",
			changed(running, lost), nil, next(m1, "b2", []string{"boot2", "boot"}), false, false, takes},
		{"restored machine, this leader knows a later nonce",
			changed(running, lost), ended, older(m1, "b2"), true, false, asksFor},

		{"copy while the original lives", changed(running, same), counted, older(m2, "b9"), true, false, asksFor},
		{"copy while the original lives, as new as its heartbeat",
			changed(running, same), counted, next(m2, "b9", rebooted), true, false, waits},
		{"copy while the original lives, the leader has changed",
			changed(running, same), nil, next(m2, "b9", rebooted), true, false, asksFor},
		{"copy older than the cut", changed(running, lost), ended, older(m2, "b9"), true, false, asksFor},
		{"copy newer than the cut", changed(running, lost), ended, next(m2, "b9", rebooted), true, false, asksFor},
		{"copy newer than the cut, in the grace",
			changed(running, same), ended, next(m2, "b9", rebooted), true, false, asksFor},
		{"copy older than the cut, the leader has changed",
			changed(running, lost), nil, older(m2, "b9"), true, false, asksFor},
		{"copy newer than the cut, the leader has changed",
			changed(running, lost), nil, next(m2, "b9", rebooted), true, false, asksFor},
		{"copy on the same host, the leader has changed",
			changed(running, lost), nil, next(m2, "b1", claimed), true, false, asksFor},
		{"copy that does not tell its machine, the leader has changed",
			changed(running, lost), nil, next("", "b9", rebooted), true, false, asksFor},
		{"copy, the original is gone and its volumes are proven free",
			changed(running, lost), nil, next(m2, "b9", rebooted), false, false, takes},
		{"disk moved to another machine, the node has volumes",
			changed(running, lost), ended, next(m2, "b2", rebooted), true, false, asksFor},
		{"disk moved to another machine, the node has none",
			changed(running, lost), ended, next(m2, "b2", rebooted), false, false, takes},
		{"disk replaced, with the ID of the node",
			changed(running, lost), ended, agentOn(m1, "b2", "x", "", []string{"new"}), true, false, asksFor},
		{"the original after a copy got the node",
			changed(running, takenByCopy),
			nil, next(m1, "b1", claimed), true, false, asksFor},

		{"archive of the servers restored, from before the reboot",
			changed(running, beforeReboot),
			nil, next(m1, "b2", rebooted), true, false, takes},
		{"archive restored, and a copy comes",
			changed(running, lost), nil, next(m2, "b9", rebooted), true, false, asksFor},
		{"node purged and back", nil, nil, next(m1, "b2", rebooted), false, false, takes},
		{"node purged, and a copy comes first", nil, nil, older(m2, "b9"), false, false, takes},

		{"whole machine started twice, as new as the cut: as a reboot",
			changed(running, lost), nil, next(m1, "b9", rebooted), true, false, takes},
		{"whole machine started twice, the pool asks",
			changed(running, lost), nil, next(m1, "b9", rebooted), true, true, asksFor},
		{"whole machine started twice, in the grace, the pool asks",
			changed(running, same), ended, next(m1, "b9", rebooted), true, true, asksFor},
		{"restart where the pool asks", changed(running, lost), nil, next(m1, "b1", claimed), true, true, takes},
		{"reboot without volumes where the pool asks",
			changed(running, lost), nil, next(m1, "b2", rebooted), false, true, takes},

		{"machine that is not known at all, on neither side",
			changed(running, func(n *structs.Node) { n.Status, n.Machine = structs.NodeDown, "" }),
			nil, next("", "b2", rebooted), true, false, takes},
		{"machine-id alone, on both sides",
			changed(running, func(n *structs.Node) { n.Status, n.Machine = structs.NodeDown, "machine:1" }),
			nil, next(m1, "b2", rebooted), true, false, takes},
	} {
		n := Node{Row: c.row, Last: c.last, HasVolumes: c.volumes, AskAfterReboot: c.ask}
		err := Check(n, c.given)
		got := takes
		switch {
		case structs.CauseOf(err) == structs.CauseSecondAgent:
			got = asksFor
		case err != nil:
			got = waits
		}
		if got != c.want {
			t.Errorf("%s: %s (%v), want %s", c.name, got, err, c.want)
		}
	}
}
