package clitest

import (
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/nodeloss"
)

// answerLost answers the requests about the loss of a node, which had one run of each kind before.
func (w *Cluster) answerLost() {
	run := func(number uint64, kind, device, by string) *nodeloss.FenceRun {
		begun := nanosBefore(time.Hour)
		return &nodeloss.FenceRun{
			NodeID: Node1,
			Number: number,
			Kind:   kind,
			Device: device,
			By:     by,
			State:  nodeloss.FenceProved,
			Begun:  begun,
			Ended:  begun + int64(5*time.Second),
		}
	}
	none := run(1, nodeloss.FenceByAgent, "", "")
	none.State = nodeloss.FenceFailed
	none.Cause = nodeloss.FenceCauseNoDevice
	none.Reason = "no device of the servers fences the node"
	apitest.Answer(w.Caller, nodeloss.NodeFenceStatus, nodeloss.NodeFenceStatusResponse{
		NodeID: Node1,
		Runs: []*nodeloss.FenceRun{
			run(4, nodeloss.FenceByLease, "", ""),
			run(3, nodeloss.FenceByWord, "", "ann"),
			run(2, nodeloss.FenceByAgent, "ipmi", "ann"),
			none,
		},
	})
	apitest.Answer(w.Caller, nodeloss.NodeFence, structs.Empty{})
	apitest.Answer(w.Caller, nodeloss.NodeConfirmLost, structs.Empty{})
	apitest.Answer(w.Caller, nodeloss.NodeFenceTest, nodeloss.NodeFenceTestResponse{})
	apitest.Answer(w.Caller, nodeloss.NodeFencePin, structs.Empty{})
	apitest.Answer(w.Caller, nodeloss.NodeFencePins, nodeloss.NodeFencePinsResponse{
		Pins: []*nodeloss.FencePin{{
			Kind:   nodeloss.FencePinOfName,
			Key:    "one",
			Name:   "bmc",
			Value:  "10.0.9.17",
			NodeID: Node1,
			By:     "ann",
			Time:   nanosBefore(time.Hour),
		}},
		Warnings: []*nodeloss.FenceWarning{{
			NodeID: Node2,
			Name:   "two",
			Text:   `no fence device matches it: ipmi: options: ip: node 1122bbbb has no pin "bmc"`,
		}},
	})
}

// Lost returns the loss of the first node, which holds a volume. Its runs are the newest first.
func Lost(runs ...*nodeloss.FenceRun) nodeloss.NodeFenceStatusResponse {
	return nodeloss.NodeFenceStatusResponse{
		NodeID: Node1,
		Name:   "one",
		Status: structs.NodeDown,
		Since:  nanosBefore(time.Hour) / int64(time.Second),
		Epoch:  7,
		Runs:   runs,
		Devices: []*nodeloss.FenceDevice{{
			Name:   "ipmi",
			Scope:  nodeloss.FencePower,
			Plug:   "${pin.plug}",
			Covers: 1,
		}},
		Claims: []*nodeloss.LostClaim{{
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
