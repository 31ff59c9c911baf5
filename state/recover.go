package state

import (
	"fmt"
	"time"

	"berth/structs"
)

// A state that is restored from a snapshot has gone back in time: it does not know of what was granted
// since, and nodes may write to volumes that it takes for free. So until each node that it takes for alive
// has said what it holds, and holds nothing without a claim, no volume is brought anywhere. No time ends
// that: a node that does not come back has to be vouched for, by forgetting it.

var unaccounted = nodes.by("unaccounted", func(n *structs.Node) key {
	if !n.Unaccounted {
		return nil
	}
	return keyOf(n.ID)
})

// Recover marks the nodes of a restored state.
func Recover(tx *Write, now int64) {
	for n := range Nodes(tx.Read) {
		if n.Status == structs.NodeDown || n.Unaccounted {
			continue
		}
		n = edited(n)
		n.Unaccounted = true
		addEvents(tx, n, []*structs.NodeEvent{{Message: "The servers' state was restored from a snapshot: the node has to say what it holds",
			Subsystem: "Cluster", Timestamp: time.Unix(0, now).UTC()}})
		nodes.put(tx, n)
	}
}

// Recovering says which node has still to say what it holds and, where that ends not by itself, what would
// help; "" if none has.
func Recovering(tx *Read) string {
	n := unaccounted.first(tx)
	if n == nil {
		return ""
	}
	text := fmt.Sprintf("the servers' state was restored from a snapshot, and node %s has not yet said that it holds no volume that is not its own", nodeName(tx, n.ID))
	if n.Status == structs.NodeDown {
		text += fmt.Sprintf("; it is down: bring it back or, once it is surely off, forget it: PUT /v1/node/%s/purge", n.ID)
	}
	return text
}

// Unclaimed names a volume that a node holds without the claim under which it was brought there, "" if there
// is none.
func Unclaimed(tx *Read, node string, inventory *structs.NodeInventory) string {
	for _, h := range inventory.Held {
		c := Claim(tx, h.Namespace, h.VolumeID, h.AllocID)
		if c == nil || c.NodeID != node || c.State != structs.ClaimGranted || h.GrantIndex != 0 && h.GrantIndex != c.GrantIndex {
			return h.VolumeID
		}
	}
	return ""
}
