package clitest

import (
	"time"

	"berth/api/apitest"
	"berth/structs"
)

// answerLost answers the requests about the loss of a node: no run was made.
func (w *Cluster) answerLost() {
	apitest.Answer(w.Caller, structs.NodeFenceStatus, structs.NodeFenceStatusResponse{NodeID: Node1})
	apitest.Answer(w.Caller, structs.NodeFence, structs.Empty{})
	apitest.Answer(w.Caller, structs.NodeConfirmLost, structs.Empty{})
	apitest.Answer(w.Caller, structs.NodeFenceTest, structs.NodeFenceTestResponse{})
}

// Lost returns the loss of the first node, which holds a volume. Its runs are the newest first.
func Lost(runs ...*structs.FenceRun) structs.NodeFenceStatusResponse {
	return structs.NodeFenceStatusResponse{
		NodeID: Node1,
		Name:   "one",
		Status: structs.NodeDown,
		Since:  nanosBefore(time.Hour) / int64(time.Second),
		Epoch:  7,
		Runs:   runs,
		Devices: []*structs.FenceDevice{{
			Name:   "ipmi",
			Scope:  structs.FencePower,
			Plug:   "${meta.plug}",
			Covers: 1,
		}},
		Claims: []*structs.LostClaim{{
			CSIClaimKey: structs.CSIClaimKey{Namespace: "default", VolumeID: "data", AllocID: "a1a1a1a1-0000"},
			PluginID:    "p",
			JobID:       "web",
			TaskGroup:   "app",
			Status:      structs.AllocLost,
			OnNodeLoss:  structs.LossHold,
			Waited:      true,
		}},
	}
}
