package clitest

import (
	"context"
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/storage"
)

// answerDrift answers with the differences of the volume "later", which is attached to two nodes by itself,
// and with the numbers of its plugin.
func (w *Cluster) answerDrift() {
	apitest.On(w.Caller, storage.DriftList,
		func(_ context.Context, r *storage.DriftListRequest) (*storage.DriftListResponse, error) {
			resp := &storage.DriftListResponse{}
			if r.VolumeID == "later" {
				resp.Differences = []*storage.VolumeDrift{
					{
						PluginID: "hostpath", Kind: storage.DriftStrayAttachment, ExternalID: "vol-1", ExternalNodeID: "ext-1",
						Namespace: "default", VolumeID: "later", NodeID: Node1, Since: nanosBefore(time.Hour),
						Repair: "detached: two lists of the plugin had the attachment", RepairTime: nanosBefore(time.Minute),
					},
					{
						PluginID: "hostpath", Kind: storage.DriftUnknownNode, ExternalID: "vol-1", ExternalNodeID: "laptop",
						Namespace: "default", VolumeID: "later", Since: nanosBefore(time.Hour),
					},
				}
			}
			return resp, nil
		})
	apitest.On(w.Caller, storage.DriftSummaries,
		func(context.Context, *structs.QueryRequest) (*storage.DriftSummariesResponse, error) {
			return &storage.DriftSummariesResponse{Summaries: []*storage.DriftSummary{{
				PluginID: "hostpath",
				Counts:   map[string]int{storage.DriftMissingVolume: 1, storage.DriftStrayVolume: 2},
				Fault:    "no page",
			}}}, nil
		})
}
