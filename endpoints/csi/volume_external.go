package csi

import (
	"context"
	"fmt"

	"berth/acl"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/validate/report"
)

// External returns one page of the volumes that the plugin itself lists, in all parts of its storage. An
// unreachable part is a warning, unless no other part answers.
func (v Volumes) External(
	ctx context.Context,
	req *structs.CSIVolumeExternalRequest,
) (*structs.CSIVolumeExternalResponse, error) {
	tx := v.Store.Read()
	plugin := csi.Plugin(tx, req.PluginID)
	if plugin == nil {
		return nil, noPlugin(req.PluginID)
	}

	// Without a healthy controller the capability is unknown. The call tells.
	info := controllerInfo(tx, plugin.ID)
	if info != nil && !info.SupportsListVolumes {
		return nil, structs.Preconditionf("CSI plugin %q cannot list its volumes", plugin.ID)
	}

	page, err := v.listOf(plugin, req).Page(ctx, tx, plugin.ID, req.NextToken)
	if err != nil {
		return nil, fmt.Errorf("listing the volumes of plugin %q: %w", plugin.ID, err)
	}
	v.noteRecords(ctx, req, page.Entries)
	resp := &structs.CSIVolumeExternalResponse{
		Volumes:   page.Entries,
		NextToken: page.NextToken,
		Warnings:  page.Warnings,
	}
	resp.QueryMeta.NextToken = page.NextToken
	return resp, nil
}

// noteRecords says of listed volumes whether a row has them. The answer is the same for a volume without a
// row and for one whose row the caller may not read. The rows are newer than the list: a volume that was made
// meanwhile has its row, or is still in creation.
func (v Volumes) noteRecords(
	ctx context.Context, req *structs.CSIVolumeExternalRequest, all []*structs.CSIVolumeExternalStub,
) {
	tx := v.Store.Read()
	rights := v.Gate.CallerOf(ctx, tx).ACL // nil for a token that has ended during the list
	seesAll := req.Sees == nil || rights != nil && rights.AllVolumes(acl.VolumeRead)
	tells := seesAll && !isCreating(tx, req.PluginID)
	for _, one := range all {
		row := csi.VolumeByExternal(tx, req.PluginID, one.ExternalID)
		switch {
		case row != nil && (req.Sees == nil || req.Sees(row.Namespace, row.ID)):
			one.Record = structs.ExternalRecorded
		case tells:
			one.Record = structs.ExternalStray
		default:
			one.Record = structs.ExternalUnknown
		}
	}
}

// isCreating reports whether a plugin may be making a volume whose ID no row has yet.
func isCreating(tx *state.ReadTx, pluginID string) bool {
	for row := range csi.UnsettledVolumes(tx) {
		if row.PluginID == pluginID && row.ExternalID == "" {
			return true
		}
	}
	return false
}

// listOf says how to list the volumes of a plugin.
func (v Volumes) listOf(
	plugin *structs.CSIPluginRow, req *structs.CSIVolumeExternalRequest,
) placeList[*structs.CSIVolumeExternalStub] {
	return placeList[*structs.CSIVolumeExternalStub]{
		Kind:  "volumes",
		Limit: int(max(0, req.PerPage)),
		Bytes: (*structs.CSIVolumeExternalStub).Bytes,
		Key: func(s *structs.CSIVolumeExternalStub) string {
			if s == nil {
				return ""
			}
			return s.ExternalID
		},
		Call: func(
			ctx context.Context, nodes []string, token string, most int32,
		) (a placeAnswer[*structs.CSIVolumeExternalStub], err error) {
			to := nodeconn.Target{Nodes: v.Nodes, IDs: nodes, Limit: placeCallTime}
			page, err := nodeconn.Call(ctx, to, nodecalls.ClientCSIControllerList, &nodecalls.ClientCSIListRequest{
				PluginID:      plugin.ID,
				Provider:      plugin.Provider,
				MaxEntries:    most,
				StartingToken: token,
			})
			if err == nil {
				err = report.Listed(page)
			}
			if err != nil {
				return a, err
			}
			return placeAnswer[*structs.CSIVolumeExternalStub]{
				Entries:   page.Volumes,
				NextToken: page.NextToken,
			}, nil
		},
	}
}
