package simulate

import (
	"slices"

	"berth/structs"
	"berth/structs/cluster"
)

// policies are the rules for the loss of a node that the volumes of the simulation have.
var policies = []string{structs.LossHold, structs.LossFence, structs.LossLease}

// volume is the truth about an exclusive volume, whatever the servers know.
type volume struct {
	id       string
	policy   string
	attached []*node
	mounts   []mount
}

// mount is the volume in a task. Each one may write.
type mount struct {
	node  *node
	alloc string
}

func (w *world) volume(id string) *volume {
	i := slices.IndexFunc(w.volumes, func(v *volume) bool { return v.id == id })
	return w.volumes[i]
}

// mount lets a task write.
func (w *world) mount(v *volume, m mount) {
	w.note("volume %s is mounted for %s on %s", v.id, structs.ShortID(m.alloc), m.node.id)
	for _, other := range v.mounts {
		if v.sleeps(other) {
			continue
		}
		w.violate(exclusiveWriter, "volume %s is mounted for %s on %s, and for %s on %s", v.id,
			structs.ShortID(m.alloc), m.node.id, structs.ShortID(other.alloc), other.node.id)
	}
	if !slices.Contains(v.attached, m.node) {
		w.violate(detachedUnmounted, "volume %s is mounted on %s and not attached", v.id, m.node.id)
	}
	v.mounts = append(v.mounts, m)
	w.script.reach("volume " + v.id + " is mounted on " + m.node.id)
}

// sleeps reports whether the guard could not yet end a task, because the machine was suspended when its lease
// ended. The guarantee of the policy lease does not hold for it: see properties.
func (v *volume) sleeps(m mount) bool {
	n := m.node
	woke := n.clock().Sub(n.woken) < cluster.GuardEndTime
	return v.policy == structs.LossLease && n.on && (n.suspended || woke)
}

// unmount ends the mounts for which gone is true.
func (v *volume) unmount(gone func(mount) bool) { v.mounts = slices.DeleteFunc(v.mounts, gone) }

func (w *world) attach(v *volume, n *node) {
	w.note("volume %s is attached to %s", v.id, n.id)
	for _, other := range v.attached {
		if other != n {
			w.violate(oneAttachment, "volume %s is attached to %s and to %s", v.id, other.id, n.id)
		}
	}
	if !slices.Contains(v.attached, n) {
		v.attached = append(v.attached, n)
	}
}

func (w *world) detach(v *volume, n *node) {
	w.note("volume %s is detached from %s", v.id, n.id)
	for _, m := range v.mounts {
		if m.node == n && !v.sleeps(m) {
			w.violate(detachedUnmounted, "volume %s is detached from %s while %s has it",
				v.id, n.id, structs.ShortID(m.alloc))
		}
	}
	v.attached = slices.DeleteFunc(v.attached, func(other *node) bool { return other == n })
}
