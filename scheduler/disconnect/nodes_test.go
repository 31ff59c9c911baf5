package disconnect

import "berth/structs"

// This file has the nodes of the model, and what the servers learn from them.

// machine is a node.
type machine struct {
	cut  bool // nothing passes between the servers and the node
	over bool // its lease has ended on the node, and what must not outlive it
	lost bool // the servers count it as down
	due  bool // the time of the rule has passed since then
	off  bool // a proof says that it is off
}

// forServers returns the node of the servers.
func (n machine) forServers() Node {
	if !n.lost {
		return Node{}
	}
	since := now
	if n.due {
		since -= bound
	}
	return Node{Lost: true, Since: since, Off: n.off}
}

// heartbeat renews the lease of a node that reaches the servers.
func (w *world) heartbeat(node int) {
	if !w.nodes[node].cut {
		w.nodes[node] = machine{}
	}
}

// endLease ends the lease of a node that is cut off on the node itself: it ends what writes a volume whose
// policy is lease.
func (m *model) endLease(w *world, node int) {
	if !w.nodes[node].cut || !m.fences {
		return // it ends nothing, and releases nothing
	}
	w.nodes[node].over = true
	for i := range int(w.used) {
		r := &w.rows[i]
		if r.claim && int(r.node) == node {
			r.alive = false
			r.ended = true
		}
	}
}

// down lets the servers count a node that is cut off as down. The node may have ended nothing yet: that
// takes it until the end of the grace.
func (w *world) down(node int) {
	if !w.nodes[node].cut {
		return
	}
	w.nodes[node].lost = true
	for i := range int(w.used) {
		r := &w.rows[i]
		if int(r.node) == node && r.stopped && r.status != complete {
			r.status = gone
		}
	}
}

// pass lets the time of the rule pass, if it has one, since a node went down.
func (m *model) pass(w *world, node int) {
	if m.rule != nil && (m.rule.StopOnClientAfter != nil || m.rule.LostAfter > 0) {
		w.nodes[node].due = w.nodes[node].lost
	}
}

// release lets the servers release the claims of a node whose lease has ended on both sides.
func (m *model) release(w *world, node int) {
	n := &w.nodes[node]
	if n.over && n.lost {
		w.releaseClaims(node)
	}
}

// releaseClaims releases the claims of a node. Their allocations are lost.
func (w *world) releaseClaims(node int) {
	for i := range int(w.used) {
		r := &w.rows[i]
		if int(r.node) == node && r.claim {
			r.claim = false
			r.stopped = true
			r.status = gone
		}
	}
}

// proveOff switches a node off that the servers count as down, and lets them know it.
func (w *world) proveOff(node int) {
	if !w.nodes[node].lost {
		return
	}
	w.nodes[node].off = true
	for i := range int(w.used) {
		r := &w.rows[i]
		if int(r.node) == node && r.told {
			r.alive = false
			r.ended = true
		}
	}
	w.releaseClaims(node)
}

// giveUp lets an operator stop the allocations of a node, to have them placed anew.
func (w *world) giveUp(node int) {
	for i := range int(w.used) {
		r := &w.rows[i]
		r.given = r.given || r.live() && int(r.node) == node
	}
}

// restart lets the tasks of a node start again.
func (m *model) restart(w *world, node int) {
	for i := range int(w.used) {
		if w.rows[i].alive && int(w.rows[i].node) == node {
			m.start(w, i)
		}
	}
}

// start lets a task start, later than all others. Only one rule depends on that time.
func (m *model) start(w *world, i int) {
	w.rows[i].alive = true
	if m.rule == nil || m.rule.Reconcile != structs.ReconcileLongestRunning {
		return
	}
	w.rows[i].since = 0
	var latest uint8
	for k := range int(w.used) {
		latest = max(latest, w.rows[k].since)
	}
	w.rows[i].since = latest + 1
	w.rank()
}

// rank numbers the starts of the tasks from 1 without gaps, so that equal states are equal.
func (w *world) rank() {
	for rank := uint8(1); rank <= w.used; rank++ {
		next := -1
		for i := range int(w.used) {
			s := w.rows[i].since
			if s >= rank && (next < 0 || s < w.rows[next].since) {
				next = i
			}
		}
		if next >= 0 {
			w.rows[next].since = rank
		}
	}
}

// report lets the servers and a node exchange what they have to tell, if its heartbeat reaches them.
func (m *model) report(w *world, node int) {
	if w.nodes[node].cut || w.nodes[node].lost {
		return
	}
	for i := range int(w.used) {
		r := &w.rows[i]
		if int(r.node) == node {
			m.reportRow(w, i)
		}
	}
}

func (m *model) reportRow(w *world, i int) {
	r := &w.rows[i]
	r.told = r.told || r.live()
	if r.stopped || r.status == gone {
		r.alive = false
		r.ended = true
	}
	if r.told && !r.ended && !r.alive && r.live() && (!m.exclusive || w.grant(i)) {
		m.start(w, i)
	}

	switch {
	case r.ended:
		r.claim = false
		if r.status != gone {
			r.status = complete
		}
	case r.alive:
		r.status = running
	}
}

// grant gives an allocation the volume, if no other one has it.
func (w *world) grant(i int) bool {
	for k := range int(w.used) {
		if k != i && w.rows[k].claim {
			return false
		}
	}
	w.rows[i].claim = true
	return true
}

// tidy removes the rows that neither the servers nor a node have any more.
func (w *world) tidy() {
	kept := 0
	for i := range int(w.used) {
		r := w.rows[i]
		if r.live() || r.alive || r.claim || r.stopped && r.status != gone && r.status != complete {
			w.rows[kept] = r
			kept++
		}
	}
	clear(w.rows[kept:])
	w.used = uint8(kept)
	w.rank()
}
