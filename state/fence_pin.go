package state

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"berth/state/csi"
	"berth/state/lease"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// This file has the values that root pins for nodes, and all that a fence device may know of a node. The name
// of a node counts only if a join token bound it, because it is otherwise the node's own word.

// FenceTarget is a node as fence devices know it. It has nothing that the node itself tells: a machine that
// names another one as itself would be released by the end of that one, and go on writing.
type FenceTarget struct {
	NodeID string
	// Name is the name to which a join token bound the node, and by which its pins are kept. "" for none.
	Name    string
	Unnamed string // why Name is "": a clause about the node
	Pins    map[string]string
}

// FenceTargetOf returns the target that is a registered node.
func FenceTargetOf(tx Reader, n *structs.Node) *FenceTarget {
	t := &FenceTarget{NodeID: n.ID, Pins: map[string]string{}}
	t.Name, t.Unnamed = boundName(tx, n)
	kind, key := t.pinKey()
	for p := range schema.FencePins.Scan(tx, kind, key) {
		t.Pins[p.Name] = p.Value
	}
	return t
}

// pinKey returns the key of the pins of the node.
func (t *FenceTarget) pinKey() (kind, key string) {
	if t.Name != "" {
		return cluster.FencePinOfName, t.Name
	}
	return cluster.FencePinOfID, t.NodeID
}

// boundName returns the name of a node if the servers have given it to this machine alone, else why not. A
// machine that was installed anew joins with another ID. While the row of the former one is there, the name
// does not say which of the two machines is meant.
func boundName(tx Reader, n *structs.Node) (name, why string) {
	c := trust.MachineCertificate(tx, cluster.JoinNode, n.ID)
	switch {
	case c == nil || c.NodeName == "":
		return "", "no join token bound its name"
	case c.NodeName != n.Name:
		return "", fmt.Sprintf("its join token bound the name %q, with which it has not registered", c.NodeName)
	}
	for other := range schema.CertificatesByNodeName.Scan(tx, c.NodeName) {
		if other.ID != n.ID && Node(tx, other.ID) != nil {
			return "", fmt.Sprintf("node %s has joined as %q, too: delete the one that is gone, with berth node purge",
				structs.ShortID(other.ID), c.NodeName)
		}
	}
	return c.NodeName, ""
}

// FencePins yields all pins, by kind, key and name.
func FencePins(tx Reader) iter.Seq[*cluster.FencePin] { return schema.FencePins.Scan(tx) }

// InheritedPin returns a pin of a target that was given for another node of its name, nil for none.
func InheritedPin(tx Reader, t *FenceTarget) *cluster.FencePin {
	kind, key := t.pinKey()
	for p := range schema.FencePins.Scan(tx, kind, key) {
		if p.NodeID != t.NodeID {
			return p
		}
	}
	return nil
}

// FencePinsChange pins values for a node, and removes pins. A pin that is not there is not-found.
func FencePinsChange(tx *WriteTx, p *cluster.NodeFencePinRequest) error {
	err := p.Validate()
	if err != nil {
		return err
	}
	kind, key, err := changedKey(tx, p)
	if err != nil {
		return err
	}

	for _, name := range p.Remove {
		pin := schema.FencePins.Get(tx, kind, key, name)
		if pin == nil {
			return structs.NotFoundf("there is no pin %q of the %s %s", name, kind,
				structs.Cut(key, structs.MaxQuoted))
		}
		schema.FencePins.Delete(tx, pin)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Pins)) {
		schema.FencePins.Put(tx, &cluster.FencePin{
			Kind:   kind,
			Key:    key,
			Name:   name,
			Value:  p.Pins[name],
			NodeID: p.NodeID,
			By:     p.By,
			Time:   p.Now,
		})
	}
	return checkPinCount(tx, kind, key)
}

// changedKey returns the key of the pins that a request changes.
func changedKey(tx Reader, p *cluster.NodeFencePinRequest) (kind, key string, err error) {
	if p.Left {
		return cluster.FencePinOfName, p.NodeID, nil
	}
	n, err := lease.FindNode(tx, p.NodeID, "")
	if err != nil {
		return "", "", err
	}
	kind, key = FenceTargetOf(tx, n).pinKey()
	return kind, key, nil
}

// checkPinCount returns an error if there are too many pins of a key, or of all.
func checkPinCount(tx *WriteTx, kind, key string) error {
	count := 0
	for range schema.FencePins.Scan(tx, kind, key) {
		count++
	}
	if count > cluster.MaxFencePins {
		return structs.Preconditionf("%d pins would be of the %s %s; at most %d: remove some", count, kind,
			structs.Cut(key, structs.MaxQuoted), cluster.MaxFencePins)
	}
	if schema.FencePins.Len(tx) > cluster.MaxFencePinRows {
		return structs.Preconditionf("there would be more than %d pins: remove some", cluster.MaxFencePinRows)
	}
	return nil
}

// deleteFencePins deletes the pins of the ID of a node that is deleted: another machine may join with that
// ID.
func deleteFencePins(tx *WriteTx, node string) {
	for _, p := range slices.Collect(schema.FencePins.Scan(tx, cluster.FencePinOfID, node)) {
		schema.FencePins.Delete(tx, p)
	}
}

// keepFencePins keeps the pins of the replaced state if it has any. The restored ones may be of machines that
// were replaced since: no archive takes a machine back.
func keepFencePins(tx *WriteTx, before Reader) {
	if schema.FencePins.Len(before) == 0 {
		return
	}
	for _, p := range slices.Collect(schema.FencePins.Scan(tx)) {
		schema.FencePins.Delete(tx, p)
	}
	for p := range schema.FencePins.Scan(before) {
		if p.Kind == cluster.FencePinOfName || Node(tx, p.Key) != nil {
			schema.FencePins.Put(tx, new(*p))
		}
	}
}

// checkFencePins checks that each pin is of a name or of a registered node.
func checkFencePins(c *schema.Report) {
	for p := range schema.FencePins.Scan(c) {
		subject := fmt.Sprintf("pin %q of the %s %s", p.Name, p.Kind, p.Key)
		c.Want(cluster.IsFencePinName(p.Name) && cluster.IsFencePinValue(p.Value), "%s: %q is no value", subject,
			p.Value)
		switch p.Kind {
		case cluster.FencePinOfName:
		case cluster.FencePinOfID:
			c.Want(Node(c, p.Key) != nil, "%s: no such node", subject)
		default:
			c.Want(false, "%s: there is no such kind", subject)
		}
	}
}

// FenceWarnings says which nodes that the servers would fence by themselves would not be fenced well. fault
// returns why no device fences a target, "" if one does.
func FenceWarnings(tx Reader, fault func(*FenceTarget) string) iter.Seq[*cluster.FenceWarning] {
	return func(yield func(*cluster.FenceWarning) bool) {
		for n := range Nodes(tx) {
			text := fenceWarning(tx, n, fault)
			if text != "" && !yield(&cluster.FenceWarning{NodeID: n.ID, Name: n.Name, Text: text}) {
				return
			}
		}
	}
}

func fenceWarning(tx Reader, n *structs.Node, fault func(*FenceTarget) string) string {
	t := FenceTargetOf(tx, n)
	if p := InheritedPin(tx, t); p != nil {
		return fmt.Sprintf("its pin %q was given for node %s, which had the name %s before", p.Name,
			structs.ShortID(p.NodeID), t.Name)
	}
	for c := range csi.ClaimsByNode(tx, n.ID) {
		v := csi.Volume(tx, c.Namespace, c.VolumeID)
		if v != nil && c.State == structs.ClaimGranted && csi.LossPolicy(tx, v) == structs.LossFence {
			return fault(t)
		}
	}
	return ""
}
