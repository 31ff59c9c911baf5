package node_test

import (
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// The pins of a node decide which machine its proof is about. Only root on the server that leads changes
// them.
func TestNodeFencePin_NeedsTheOperatorSocket(t *testing.T) {
	s := serverWithVolume(t)
	req := &cluster.NodeFencePinRequest{NodeID: "n1", Pins: map[string]string{"bmc": "10.0.9.1"}}
	endpointstest.Rejected(s, structs.KindDenied, cluster.NodeFencePin, req)
	s.OverSocket = true
	endpointstest.Rejected(s, structs.KindInvalid, cluster.NodeFencePin,
		&cluster.NodeFencePinRequest{NodeID: "n1"})
	endpointstest.Rejected(s, structs.KindNotFound, cluster.NodeFencePin,
		&cluster.NodeFencePinRequest{NodeID: "n9", Pins: req.Pins})
	if got := endpointstest.Must(s, cluster.NodeFencePins, &structs.QueryRequest{}); len(got.Pins) != 0 {
		t.Fatalf("the pins are %+v", got.Pins)
	}

	endpointstest.Must(s, cluster.NodeFencePin, req)
	got := endpointstest.Must(s, cluster.NodeFencePins, &structs.QueryRequest{})
	want := cluster.FencePin{
		Kind: cluster.FencePinOfID, Key: "n1", Name: "bmc", Value: "10.0.9.1", NodeID: "n1", By: "an operator",
		Time: s.Clock.UnixNano(),
	}
	if len(got.Pins) != 1 {
		t.Fatalf("the pins are %+v", got.Pins)
	}
	want.Indexes = got.Pins[0].Indexes
	if *got.Pins[0] != want {
		t.Errorf("got %+v, want %+v", got.Pins[0], want)
	}
}

// An operator learns before the loss of a node, and at it, which pin is missing.
func TestNodeFencePins_WarnsOfANodeWithoutAPin(t *testing.T) {
	s := serverWithVolume(t)
	s.OverSocket = true
	power := []*cluster.FenceDevice{{Name: "ipmi", Scope: cluster.FencePower}}
	s.Fencing = fakeFencing{devices: power, needs: "bmc"}
	if got := endpointstest.Must(s, cluster.NodeFencePins, &structs.QueryRequest{}); len(got.Warnings) != 0 {
		t.Errorf("its volume holds: %+v", got.Warnings[0])
	}
	policy := &storage.PluginSettingsRequest{ID: "pl", OnNodeLoss: structs.LossFence}
	endpointstest.MustPropose(s, fsm.PluginConfigSet, policy)
	got := endpointstest.Must(s, cluster.NodeFencePins, &structs.QueryRequest{})
	if len(got.Warnings) != 1 || got.Warnings[0].NodeID != "n1" ||
		got.Warnings[0].Text != "no fence device matches it: ipmi: no pin bmc" {
		t.Errorf("the warnings are %+v", got.Warnings)
	}

	s.SetNodeDown("n1")
	status := endpointstest.Must(s, cluster.NodeFenceStatus, &structs.NodeGetRequest{NodeID: "n1"})
	if len(status.Devices) != 0 || len(status.Others) != 1 || status.Others[0].Reason != "no pin bmc" {
		t.Errorf("the devices are %+v, the others %+v", status.Devices, status.Others)
	}
	err := endpointstest.Rejected(s, structs.KindPrecondition, cluster.NodeFence,
		&cluster.NodeFenceRequest{NodeID: "n1"})
	if err == nil || !strings.Contains(err.Error(), "covers its volumes: ipmi: no pin bmc; if the machine is off") {
		t.Errorf("got %v", err)
	}

	pin := &cluster.NodeFencePinRequest{NodeID: "n1", Pins: map[string]string{"bmc": "1"}}
	endpointstest.Must(s, cluster.NodeFencePin, pin)
	endpointstest.Must(s, cluster.NodeFence, &cluster.NodeFenceRequest{NodeID: "n1"})
	if got := endpointstest.Must(s, cluster.NodeFencePins, &structs.QueryRequest{}); len(got.Warnings) != 0 {
		t.Errorf("after the pin: %+v", got.Warnings)
	}
}
