package clitest

import (
	"time"

	"berth/api/apitest"
	"berth/structs"
)

// answerLost answers the requests about the loss of a node, which had one run of each kind before.
func (w *Cluster) answerLost() {
	run := func(number uint64, kind, device, by string) *structs.FenceRun {
		begun := nanosBefore(time.Hour)
		return &structs.FenceRun{
			NodeID: Node1,
			Number: number,
			Kind:   kind,
			Device: device,
			By:     by,
			State:  structs.FenceProved,
			Begun:  begun,
			Ended:  begun + int64(5*time.Second),
		}
	}
	none := run(1, structs.FenceByAgent, "", "")
	none.State = structs.FenceFailed
	none.Cause = structs.FenceCauseNoDevice
	none.Reason = "no device of the servers fences the node"
	apitest.Answer(w.Caller, structs.NodeFenceStatus, structs.NodeFenceStatusResponse{
		NodeID: Node1,
		Runs: []*structs.FenceRun{
			run(4, structs.FenceByLease, "", ""),
			run(3, structs.FenceByWord, "", "ann"),
			run(2, structs.FenceByAgent, "ipmi", "ann"),
			none,
		},
	})
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
