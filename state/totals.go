package state

import (
	"slices"

	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
)

// Totals has the numbers of rows that an operator watches.
type Totals struct {
	Nodes       map[string]int // by status
	Claims      map[string]int // by state
	Attachments map[string]int // that need a call, by state
	Volumes     map[string]int // that need a call, by state
	Plugins     []*structs.CSIPluginCountRow
}

// The states of ready volumes that need a call, now or later.
const (
	volumeGrows  = "expanding"
	volumeMarked = "marked" // to be deleted later
)

// CountTotals reads each node, each volume with claims, each half of a plugin and each row that needs a call.
// It reads no claims and no settled volumes, so it costs milliseconds in the largest fleet.
func CountTotals(tx Reader) Totals {
	t := noTotals()
	for n := range Nodes(tx) {
		t.Nodes[n.Status]++
	}

	for l := range schema.ClaimQueues.Scan(tx) {
		for _, c := range l.Classes {
			t.Claims[structs.ClaimWaiting] += c.Waiting
			t.Claims[structs.ClaimGranted] += c.Granted
		}
	}

	for a := range csi.UnsettledAttachments(tx) {
		t.Attachments[a.State]++
	}

	for v := range csi.UnsettledVolumes(tx) {
		switch {
		case v.Marked():
			t.Volumes[volumeMarked]++
		case v.State == structs.VolumeReady:
			t.Volumes[volumeGrows]++
		default:
			t.Volumes[v.State]++
		}
	}

	t.Plugins = slices.Collect(schema.PluginCounts.Scan(tx))
	return t
}

// noTotals has a 0 for each known state, so that each is reported from the first count on, also without rows.
func noTotals() Totals {
	return Totals{
		Nodes: map[string]int{
			structs.NodeInit:  0,
			structs.NodeReady: 0,
			structs.NodeDown:  0,
		},
		Claims: map[string]int{
			structs.ClaimWaiting: 0,
			structs.ClaimGranted: 0,
		},
		Attachments: map[string]int{
			structs.AttachmentAttaching: 0,
			structs.AttachmentDetaching: 0,
		},
		Volumes: map[string]int{
			structs.VolumeCreating: 0,
			structs.VolumeDeleting: 0,
			volumeGrows:            0,
			volumeMarked:           0,
		},
	}
}
