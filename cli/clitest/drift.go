package clitest

import (
	"context"
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/drift"
)

// answerDrift answers with the differences of the volume "later", which is attached to two nodes by itself,
// and with the numbers of its plugin.
func (w *Cluster) answerDrift() {
	apitest.On(w.Caller, drift.List,
		func(_ context.Context, r *drift.DriftListRequest) (*drift.DriftListResponse, error) {
			resp := &drift.DriftListResponse{}
			if r.VolumeID == "later" {
				resp.Differences = []*drift.VolumeDrift{
					{
						PluginID: "hostpath", Kind: drift.StrayAttachment, ExternalID: "vol-1", ExternalNodeID: "ext-1",
						Namespace: "default", VolumeID: "later", NodeID: Node1, Since: nanosBefore(time.Hour),
						Repair: "detached: two lists of the plugin had the attachment", RepairTime: nanosBefore(time.Minute),
					},
					{
						PluginID: "hostpath", Kind: drift.UnknownNode, ExternalID: "vol-1", ExternalNodeID: "laptop",
						Namespace: "default", VolumeID: "later", Since: nanosBefore(time.Hour),
					},
				}
			}
			return resp, nil
		})
	apitest.On(w.Caller, drift.Summaries,
		func(context.Context, *structs.QueryRequest) (*drift.DriftSummariesResponse, error) {
			return &drift.DriftSummariesResponse{Summaries: []*drift.DriftSummary{{
				PluginID: "hostpath",
				Counts:   map[string]int{drift.MissingVolume: 1, drift.StrayVolume: 2},
				Fault:    "no page",
			}}}, nil
		})
}
