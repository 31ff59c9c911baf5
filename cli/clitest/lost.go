package clitest

import (
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
)

// answerLost answers the requests about the loss of a node, which had one run of each kind before.
func (w *Cluster) answerLost() {
	run := func(number uint64, kind, device, by string) *cluster.FenceRun {
		begun := nanosBefore(time.Hour)
		return &cluster.FenceRun{
			NodeID: Node1,
			Number: number,
			Kind:   kind,
			Device: device,
			By:     by,
			State:  cluster.FenceProved,
			Begun:  begun,
			Ended:  begun + int64(5*time.Second),
		}
	}
	none := run(1, cluster.FenceByAgent, "", "")
	none.State = cluster.FenceFailed
	none.Cause = cluster.FenceCauseNoDevice
	none.Reason = "no device of the servers fences the node"
	apitest.Answer(w.Caller, cluster.NodeFenceStatus, cluster.NodeFenceStatusResponse{
		NodeID: Node1,
		Runs: []*cluster.FenceRun{
			run(4, cluster.FenceByLease, "", ""),
			run(3, cluster.FenceByWord, "", "ann"),
			run(2, cluster.FenceByAgent, "ipmi", "ann"),
			none,
		},
	})
	apitest.Answer(w.Caller, cluster.NodeFence, structs.Empty{})
	apitest.Answer(w.Caller, cluster.NodeConfirmLost, structs.Empty{})
	apitest.Answer(w.Caller, cluster.NodeFenceTest, cluster.NodeFenceTestResponse{})
	apitest.Answer(w.Caller, cluster.NodeFencePin, structs.Empty{})
	apitest.Answer(w.Caller, cluster.NodeFencePins, cluster.NodeFencePinsResponse{
		Pins: []*cluster.FencePin{{
			Kind:   cluster.FencePinOfName,
			Key:    "one",
			Name:   "bmc",
			Value:  "10.0.9.17",
			NodeID: Node1,
			By:     "ann",
			Time:   nanosBefore(time.Hour),
		}},
		Warnings: []*cluster.FenceWarning{{
			NodeID: Node2,
			Name:   "two",
			Text:   `no fence device matches it: ipmi: options: ip: node 1122bbbb has no pin "bmc"`,
		}},
	})
}

// Lost returns the loss of the first node, which holds a volume. Its runs are the newest first.
func Lost(runs ...*cluster.FenceRun) cluster.NodeFenceStatusResponse {
	return cluster.NodeFenceStatusResponse{
		NodeID: Node1,
		Name:   "one",
		Status: structs.NodeDown,
		Since:  nanosBefore(time.Hour) / int64(time.Second),
		Epoch:  7,
		Runs:   runs,
		Devices: []*cluster.FenceDevice{{
			Name:   "ipmi",
			Scope:  cluster.FencePower,
			Plug:   "${pin.plug}",
			Covers: 1,
		}},
		Claims: []*cluster.LostClaim{{
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
