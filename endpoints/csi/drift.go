package csi

import (
	"berth/endpoints/query"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// ListDrift lists the differences between the volumes of a namespace and their storage.
func ListDrift(tx *state.ReadTx, req *storage.DriftListRequest, resp *storage.DriftListResponse) (err error) {
	l := query.List[storage.VolumeDrift, storage.VolumeDrift]{
		Key: func(d *storage.VolumeDrift) []string {
			return []string{d.PluginID, d.Kind, d.ExternalID, d.ExternalNodeID}
		},
		Stub: func(d, stub *storage.VolumeDrift) { *stub = *d },
		Keep: func(d *storage.VolumeDrift) bool {
			return (req.PluginID == "" || d.PluginID == req.PluginID) &&
				(req.VolumeID == "" || d.VolumeID == req.VolumeID) && inNamespace(d.Namespace, req)
		},
	}
	resp.Differences, err = l.Page(csi.DriftsFrom(tx, query.Start(req)), req, resp)
	return err
}

// ListDriftSummaries lists the numbers of the differences of all plugins.
func ListDriftSummaries(
	tx *state.ReadTx, _ *structs.QueryRequest, resp *storage.DriftSummariesResponse,
) error {
	for s := range csi.DriftSummaries(tx) {
		resp.Summaries = append(resp.Summaries, s)
	}
	return nil
}
