package csi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
	"berth/structs/validate/report"
)

// snapshotDeleteTime bounds the deletion of a snapshot without a row.
const snapshotDeleteTime = 2 * time.Minute

// External returns one page of the snapshots that the plugin itself lists, in all parts of its storage. An
// unreachable part is a warning, unless no part answers. For a plugin that does not list its snapshots, the
// page has the rows.
func (p Snapshots) External(
	ctx context.Context, req *storage.SnapshotExternalRequest,
) (*storage.SnapshotExternalResponse, error) {
	tx := p.Store.Read()
	plugin := csi.Plugin(tx, req.PluginID)
	if plugin == nil {
		return nil, structs.NotFoundf("there is no CSI plugin %q", structs.Cut(req.PluginID, structs.MaxQuoted))
	}
	if !listsSnapshots(tx, plugin.ID) {
		return snapshotsOfRows(tx, req), nil
	}

	page, err := p.listOf(plugin, req).Page(ctx, tx, plugin.ID, req.NextToken)
	if err != nil {
		return nil, fmt.Errorf("listing the snapshots of plugin %q: %w", plugin.ID, err)
	}
	resp := &storage.SnapshotExternalResponse{
		Snapshots: page.Entries,
		NextToken: page.NextToken,
		Warnings:  page.Warnings,
	}
	resp.QueryMeta.NextToken = page.NextToken
	addSnapshotRows(tx, req, resp.Snapshots)
	return resp, nil
}

// listsSnapshots reports whether the plugin may list its snapshots. Without a healthy controller the call
// tells.
func listsSnapshots(tx *state.ReadTx, plugin string) bool {
	for i := range csi.InstancesByPluginKind(tx, plugin, structs.CSIKindController) {
		if i.Healthy && i.ControllerInfo != nil && !i.ControllerInfo.SupportsListSnapshots {
			return false
		}
	}
	return true
}

// snapshotsOfRows returns the cut snapshots of a plugin that have rows, of all namespaces, as a plugin's
// snapshots are.
func snapshotsOfRows(
	tx *state.ReadTx, req *storage.SnapshotExternalRequest,
) *storage.SnapshotExternalResponse {
	resp := &storage.SnapshotExternalResponse{Snapshots: []*storage.CSISnapshot{}}
	most := cmp.Or(int(req.PerPage), structs.MaxExternal)
	for s := range csi.SnapshotsOfPlugin(tx, req.PluginID) {
		if s.ExternalID == "" || s.ExternalID < req.NextToken {
			continue
		}
		if len(resp.Snapshots) >= most {
			resp.NextToken = s.ExternalID
			break
		}
		resp.Snapshots = append(resp.Snapshots, &storage.CSISnapshot{
			ID:                     s.ExternalID,
			ExternalSourceVolumeID: s.SourceExternalID,
			SizeBytes:              s.SizeBytes,
			CreateTime:             s.CutTime / int64(time.Second),
			IsReady:                s.State == storage.SnapshotReady,
		})
	}
	addSnapshotRows(tx, req, resp.Snapshots)
	return resp
}

// addSnapshotRows adds the plugin to listed snapshots, and what their rows in the namespace of the request
// have: the name and the volume. The rights of the caller are about that namespace alone.
func addSnapshotRows(tx *state.ReadTx, req *storage.SnapshotExternalRequest, all []*storage.CSISnapshot) {
	for _, s := range all {
		s.PluginID = req.PluginID
		row := csi.SnapshotByExternal(tx, req.PluginID, s.ID)
		if row != nil && row.Namespace == req.RequestNamespace() {
			s.Name = row.Name
			s.SourceVolumeID = row.VolumeID
		}
	}
}

// listOf says how to list the snapshots of a plugin. An entry has the parts that only a plugin knows.
func (p Snapshots) listOf(
	plugin *structs.CSIPluginRow, req *storage.SnapshotExternalRequest,
) placeList[*storage.CSISnapshot] {
	return placeList[*storage.CSISnapshot]{
		Kind:  "snapshots",
		Limit: int(max(0, req.PerPage)),
		Key:   func(s *storage.CSISnapshot) string { return s.ID },
		Bytes: func(s *storage.CSISnapshot) int { return len(s.ID) + len(s.ExternalSourceVolumeID) },
		Call: func(
			ctx context.Context, nodes []string, token string, most int32,
		) (a placeAnswer[*storage.CSISnapshot], err error) {
			to := nodeconn.Target{Nodes: p.Nodes, IDs: nodes, Limit: placeCallTime}
			page, err := nodeconn.Call(ctx, to, nodecalls.ClientCSISnapshotList,
				&nodecalls.ClientCSISnapshotListRequest{
					PluginID:      plugin.ID,
					Provider:      plugin.Provider,
					MaxEntries:    most,
					StartingToken: token,
					Secrets:       req.Secrets,
				})
			if err == nil {
				err = report.Snapshots(page)
			}
			if err != nil {
				return a, err
			}
			a.NextToken = page.NextToken
			for _, s := range page.Snapshots {
				a.Entries = append(a.Entries, &storage.CSISnapshot{
					ID:                     s.ID,
					ExternalSourceVolumeID: s.ExternalSourceVolumeID,
					SizeBytes:              s.SizeBytes,
					CreateTime:             s.CreateTime,
					IsReady:                s.IsReady,
				})
			}
			return a, nil
		},
	}
}

// deleteExternal deletes a snapshot without a row, in each part of the storage: a plugin that does not know a
// snapshot answers that it is deleted.
func (p Snapshots) deleteExternal(ctx context.Context, req *storage.SnapshotDeleteRequest) error {
	tx := p.Store.Read()
	if csi.Plugin(tx, req.PluginID) == nil {
		return structs.NotFoundf("there is no CSI plugin %q", structs.Cut(req.PluginID, structs.MaxQuoted))
	}
	// The volume may be in a namespace that the caller does not see.
	s := &storage.VolumeSnapshot{PluginID: req.PluginID}
	s.ExternalID = req.SnapshotID
	if csi.RestoreOf(tx, s) != "" {
		return structs.Conflictf("snapshot %q of plugin %q cannot be deleted while a volume is being created from it", structs.Cut(req.SnapshotID, structs.MaxQuoted), req.PluginID)
	}
	all := placesOf(tx, req.PluginID)
	// Any of them might have the snapshot.
	down := func(at *place) bool { return len(at.Nodes) == 0 }
	if len(all) == 0 || slices.ContainsFunc(all, down) {
		return nodeconn.ErrNoController
	}

	for _, at := range all {
		for i, node := range at.Nodes {
			call := &nodecalls.ClientCSISnapshotDeleteRequest{
				PluginID:   req.PluginID,
				ExternalID: req.SnapshotID,
				Secrets:    req.Secrets,
			}
			nodeconn.Address(tx, call)
			nodeconn.StampEpoch(tx, node, call)
			to := nodeconn.Target{Nodes: p.Nodes, IDs: []string{node}, Limit: snapshotDeleteTime}
			_, err := nodeconn.Call(ctx, to, nodecalls.ClientCSISnapshotDelete, call)
			if nodeconn.TryNext(err) && i < len(at.Nodes)-1 {
				continue
			}
			if err != nil && !structs.IsKind(err, structs.KindNotFound) {
				return err
			}
			break
		}
	}
	return nil
}
