package volumes

import (
	"context"
	"fmt"
	"time"

	"berth/fsm"
	"berth/server/control/loop"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

const (
	// driftAfter is the time from the begin of a leadership to the first lists: plugins connect meanwhile.
	driftAfter = time.Minute
	// maxRepairs bounds the repairs after a list: a plugin that lists nonsense does little harm.
	maxRepairs = 10
)

// DriftLoop compares while this server leads. It remembers the last list of each plugin. Another leader
// begins anew: it records a difference after two lists.
//
// It compares the rows of volumes and attachments with the lists of CSI plugins. It records the
// differences that two complete lists in a row have, and repairs differences of attachments where the
// settings of the plugin ask for it. It never deletes a volume, and a volume that a list leaves out is never
// detached: a list is no consistent view (CSI spec, ListVolumes).
type DriftLoop struct {
	loop.Common
}

// driftMemory is what the loop knows of a plugin.
type driftMemory struct {
	last *driftOutcome // of the last list, nil if it was not complete
}

// Run compares until ctx ends.
func (l DriftLoop) Run(ctx context.Context) {
	loop.Rounds[driftMemory]{
		Common:   l.Common,
		After:    driftAfter,
		Interval: l.interval,
		Round:    l.compare,
	}.Run(ctx)
}

// interval returns the time between two lists of a plugin. It reports false if the plugin is not to be
// listed.
func (l DriftLoop) interval(
	ctx context.Context, tx *state.ReadTx, pluginID string, m *driftMemory,
) (time.Duration, bool) {
	if l.leaveOut(ctx, tx, pluginID) {
		return 0, false
	}
	if fault := endingList(tx, pluginID); fault != "" {
		m.last = nil
		l.recordFault(ctx, pluginID, fault)
		return 0, false
	}
	return csi.PluginConfig(tx, pluginID).Interval(), true
}

// leaveOut reports whether a plugin is not listed. If its settings exclude it, or it cannot list, its
// differences are not known any more and go.
func (l DriftLoop) leaveOut(ctx context.Context, tx *state.ReadTx, pluginID string) bool {
	off := csi.PluginConfig(tx, pluginID).Drift == storage.DriftOff
	reachable, lists := abilities(tx, pluginID)
	if !off && lists {
		return false
	}
	if off || reachable {
		l.record(ctx, pluginID, nil, &storage.DriftSummary{PluginID: pluginID})
	}
	return true
}

// abilities reports whether a controller of a plugin is reachable, and whether one announces LIST_VOLUMES.
func abilities(tx *state.ReadTx, pluginID string) (reachable, lists bool) {
	for i := range csi.InstancesByPluginKind(tx, pluginID, structs.CSIKindController) {
		if i.Healthy && i.ControllerInfo != nil && nodeconn.Reachable(state.Node(tx, i.NodeID)) {
			reachable = true
			lists = lists || i.ControllerInfo.SupportsListVolumes
		}
	}
	return reachable, lists
}

// endingList returns the reason for which a plugin is not listed although it can: its list has ended an
// instance twice, and another instance is likely to end as well. It is "" for none.
func endingList(tx *state.ReadTx, pluginID string) string {
	for i := range csi.InstancesByPluginKind(tx, pluginID, structs.CSIKindController) {
		for _, c := range i.EndingCalls {
			if c.RPC == listVolumes {
				return fmt.Sprintf("node %s: %s", structs.ShortID(i.NodeID), c.Text())
			}
		}
	}
	return ""
}

// listVolumes is the RPC of the lists.
const listVolumes = "ListVolumes"

// compare lists the volumes of a plugin once and records the differences.
func (l DriftLoop) compare(ctx context.Context, pluginID string, m *driftMemory) {
	out, err := newDriftPass(l, pluginID).run(ctx)
	if ctx.Err() != nil {
		return
	}

	if err != nil {
		m.last = nil
		l.Logger.Debug("the list of a plugin is not complete", "plugin_id", pluginID, "error", err)
		l.recordFault(ctx, pluginID, err.Error())
		return
	}

	tx := l.Store.Read()
	summary := summaryOf(tx, pluginID)
	confirmed := l.confirm(ctx, tx, out, m.last)
	summary.Counts = counts(confirmed, strays(out, m.last, summary.Counts[storage.DriftStrayVolume]))
	m.last = out
	if l.record(ctx, pluginID, confirmed, summary) {
		l.repair(ctx, confirmed)
	}
}

// summaryOf returns a new summary with the counts of the last one.
func summaryOf(tx *state.ReadTx, pluginID string) *storage.DriftSummary {
	summary := &storage.DriftSummary{PluginID: pluginID, Counts: map[string]int{}}
	if old := csi.DriftSummary(tx, pluginID); old != nil {
		summary.Counts = old.Counts
	}
	return summary
}

// recordFault records why a list is not complete. The differences stay as they are.
func (l DriftLoop) recordFault(ctx context.Context, pluginID, fault string) {
	tx := l.Store.Read()
	summary := summaryOf(tx, pluginID)
	summary.Fault = structs.Cut(fault, structs.MaxErrorText)
	if !summary.Says(csi.DriftSummary(tx, pluginID)) {
		l.propose(ctx, &storage.DriftRecordRequest{PluginID: pluginID, Summary: summary})
	}
}

// strays returns the number of volumes without a row that two lists have. Without an earlier list, it is at
// most the number before.
func strays(now, last *driftOutcome, before int) (n int) {
	if last == nil {
		return min(before, len(now.strays))
	}
	for id := range now.strays {
		if _, both := last.strays[id]; both {
			n++
		}
	}
	return n
}

func counts(confirmed map[storage.DriftKey]*storage.VolumeDrift, strays int) map[string]int {
	n := map[string]int{}
	if strays > 0 {
		n[storage.DriftStrayVolume] = strays
	}
	for k := range confirmed {
		n[k.Kind]++
	}
	return n
}

// repair repairs the attachments that a list has shown to differ, if the settings of the plugin ask for it.
func (l DriftLoop) repair(ctx context.Context, confirmed map[storage.DriftKey]*storage.VolumeDrift) {
	left := maxRepairs
	for _, k := range sortedKeys(confirmed) {
		now := time.Now().UnixNano()
		tx := l.Store.Read()
		d := csi.Drift(tx, k)
		if left == 0 || d == nil || csi.DriftRepairFault(tx, d, now) != "" {
			continue
		}

		left--
		req := &storage.DriftRepairRequest{DriftKey: k}
		req.Namespace = d.Namespace
		req.Now = now
		_, err := fsm.Propose(ctx, l.Proposer, fsm.DriftRepair, req)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.Logger.Warn("failed to repair an attachment", "plugin_id", k.PluginID, "volume_id", d.VolumeID,
				"namespace", d.Namespace, "node_id", d.NodeID, "error", err)
			continue
		}
		l.Logger.Info("attachment is repaired", "plugin_id", k.PluginID, "volume_id", d.VolumeID,
			"namespace", d.Namespace, "node_id", d.NodeID, "kind", k.Kind)
	}
}
