package volumes

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/fsm"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// maxConfirms bounds the calls of ControllerGetVolume after a list. Volumes beyond it stay as they were
// recorded, and a later list asks for them.
const maxConfirms = 100

// codeNotFound is the code of an answer that a plugin has no such volume.
const codeNotFound = "NotFound"

// confirm returns the differences of a list that the list before has too, or that are recorded. A missing
// volume that its plugin finds, when it is asked for it alone, is not missing.
func (l DriftLoop) confirm(
	ctx context.Context, tx *state.ReadTx, now, last *driftOutcome,
) map[storage.DriftKey]*storage.VolumeDrift {
	confirmed := map[storage.DriftKey]*storage.VolumeDrift{}
	asked := 0
	for _, k := range sortedKeys(now.found) {
		d := now.found[k]
		recorded := d.Same(csi.Drift(tx, k))
		if !recorded && (last == nil || !d.Same(last.found[k])) {
			continue
		}
		if k.Kind != storage.DriftMissingVolume || !gets(tx, k.PluginID) {
			confirmed[k] = d
			continue
		}

		missing := recorded
		if asked < maxConfirms {
			asked++
			missing = l.isMissing(ctx, tx, d, recorded)
		}
		if missing {
			confirmed[k] = d
		}
	}
	return confirmed
}

// gets reports whether a reachable controller of a plugin announces GET_VOLUME.
func gets(tx *state.ReadTx, pluginID string) bool {
	for i := range csi.InstancesByPluginKind(tx, pluginID, structs.CSIKindController) {
		if i.Healthy && i.ControllerInfo != nil && i.ControllerInfo.SupportsGet &&
			nodeconn.Reachable(state.Node(tx, i.NodeID)) {
			return true
		}
	}
	return false
}

// isMissing asks a plugin for a volume that it does not list. Any other answer than that there is none, or
// that there is one, leaves it as it was recorded.
func (l DriftLoop) isMissing(
	ctx context.Context, tx *state.ReadTx, d *storage.VolumeDrift, recorded bool,
) bool {
	v := csi.Volume(tx, d.Namespace, d.VolumeID)
	if v == nil {
		return false
	}
	req := &nodecalls.ClientCSIGetVolumeRequest{PluginID: d.PluginID, ExternalID: d.ExternalID}
	nodeconn.Address(tx, req)
	to := nodeconn.Target{Nodes: l.Nodes, IDs: nodeconn.VolumeControllers(tx, v), Limit: driftCallTime}
	_, err := nodeconn.Call(ctx, to, nodecalls.ClientCSIControllerGet, req)
	switch {
	case err == nil:
		return false
	case structs.CodeOf(err) == codeNotFound:
		return true
	}
	l.Logger.Debug("plugin does not tell whether it has a volume that it does not list",
		"plugin_id", d.PluginID, "volume_id", d.VolumeID, "namespace", d.Namespace, "error", err)
	return recorded
}

func sortedKeys(m map[storage.DriftKey]*storage.VolumeDrift) []storage.DriftKey {
	return slices.SortedFunc(maps.Keys(m), storage.DriftKey.Compare)
}

// record makes the rows of a plugin equal to the differences, as far as their bound allows, and reports
// whether they are. It writes nothing if nothing has changed.
func (l DriftLoop) record(
	ctx context.Context,
	pluginID string,
	want map[storage.DriftKey]*storage.VolumeDrift,
	s *storage.DriftSummary,
) bool {
	tx := l.Store.Read()
	var gone []storage.DriftKey
	for d := range csi.DriftsOfPlugin(tx, pluginID) {
		if want[d.Key()] == nil {
			gone = append(gone, d.Key())
		}
	}
	var found []*storage.VolumeDrift
	keys := sortedKeys(want)
	for _, k := range keys[:min(len(keys), storage.MaxDrifts)] {
		if !want[k].Same(csi.Drift(tx, k)) {
			found = append(found, want[k])
		}
	}

	// Rows go before others come, so that the bound leaves none out.
	for chunk := range slices.Chunk(gone, storage.MaxDriftChanges) {
		if !l.propose(ctx, &storage.DriftRecordRequest{PluginID: pluginID, Gone: chunk}) {
			return false
		}
	}
	for chunk := range slices.Chunk(found, storage.MaxDriftChanges) {
		if !l.propose(ctx, &storage.DriftRecordRequest{PluginID: pluginID, Found: chunk}) {
			return false
		}
	}
	return l.propose(ctx, &storage.DriftRecordRequest{PluginID: pluginID, Summary: s})
}

// propose records changes, if there are any. It reports false if that failed.
func (l DriftLoop) propose(ctx context.Context, req *storage.DriftRecordRequest) bool {
	same := req.Summary == nil || req.Summary.Says(csi.DriftSummary(l.Store.Read(), req.PluginID))
	if same && len(req.Found)+len(req.Gone) == 0 {
		return true
	}
	req.Now = time.Now().UnixNano()
	_, err := fsm.Propose(ctx, l.Proposer, fsm.DriftRecord, req)
	if err != nil && ctx.Err() == nil {
		l.Logger.Warn("failed to record the differences of a plugin; the next list repeats it",
			"plugin_id", req.PluginID, "error", err)
	}
	return err == nil
}
