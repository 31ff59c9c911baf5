package simulate

import (
	"fmt"
	"slices"
	"time"

	"berth/state/csi"
	"berth/structs"
)

// duplicate is another machine, whose disk is a copy of that of a node. Its agent asks to be the node. It
// runs no task.
type duplicate struct {
	n          *node
	disk       disk
	at         place
	until      time.Duration // it is switched off
	stays      time.Duration // how long it stays on as the node
	registered bool
}

// startCopy copies the disk of a node and starts the copy on another machine. A node has one copy at a time.
func (w *world) startCopy(n *node) {
	if n.copy != nil && n.copy.isOn() || n.disk.next == "" {
		return
	}
	w.copies++
	tries, stays := 90*time.Second, 30*time.Second
	if w.script == nil {
		tries, stays = w.lasting(), w.lasting()
	}
	c := &duplicate{
		n:    n,
		disk: n.disk,
		at: place{
			// The copy of the disk has the machine-id.
			machine: structs.MachineID(fmt.Sprintf("product:copy%d machine:%s", w.copies, n.id)),
			boot:    fmt.Sprint("boot of copy ", w.copies),
			store:   "copy",
		},
		until: w.now + tries,
		stays: stays,
	}
	n.copy = c
	w.note("a copy of %s starts", n.id)
	c.disk.load(w, c.at)
	c.ask()
}

func (c *duplicate) isOn() bool { return c.n.w.now < c.until }

// ask asks for the lease, again and again.
func (c *duplicate) ask() {
	w := c.n.w
	if !c.isOn() {
		w.note("the copy of %s is switched off", c.n.id)
		return
	}
	a, serve := newAsker(c.n, c, &c.disk, c.at, c.registered)
	reply := func(_ any, err error) {
		w.after(w.upTo(20*time.Millisecond), func() {
			c.disk.answered(w, a.proof, err)
			c.registered = err == nil
		})
	}
	w.after(w.upTo(20*time.Millisecond), func() {
		if w.leader != nil {
			serve(w.leader, reply)
		}
	})
	w.after(2*time.Second, c.ask)
}

// admitted notes that the servers have given a lease to an agent.
func (a asker) admitted() {
	n := a.n
	if a.copy == nil {
		n.holder = nil
		return
	}
	if n.holder != a.copy {
		n.w.note("a copy is %s", n.id)
		n.holder = a.copy
		a.copy.until = n.w.now + a.copy.stays
	}
	a.copy.check()
}

// check checks that the copy is no node with volumes: the servers would ask it to let go of them.
func (c *duplicate) check() {
	w := c.n.w
	tx := w.store.Read()
	if csi.HasGrantedClaims(tx, c.n.id) {
		w.violate(exclusiveWriter, "a copy is %s, which has volumes", c.n.id)
	}
	for _, v := range w.volumes {
		has := func(m mount) bool { return m.node == c.n && !v.sleeps(m) }
		if slices.ContainsFunc(v.mounts, has) {
			w.violate(exclusiveWriter, "a copy is %s, which has volume %s mounted", c.n.id, v.id)
		}
	}
}
