package node_test

import (
	"context"
	"strings"
	"testing"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// tooLong is longer than each text of an operator may be.
var tooLong = strings.Repeat("x", structs.MaxText+1)

// fakeFencing has devices that fence each node.
type fakeFencing struct {
	devices []*structs.FenceDevice
	tests   []*structs.FenceTest
}

func (f fakeFencing) For(_ *structs.Node, claims []*structs.LostClaim) []*structs.FenceDevice {
	for _, d := range f.devices {
		if d.Scope == structs.FencePower {
			d.Covers = len(claims)
		}
	}
	return f.devices
}

func (f fakeFencing) Test(context.Context, *structs.Node) []*structs.FenceTest { return f.tests }

// serverWithVolume is a server whose node n1 uses the volume v.
func serverWithVolume(t *testing.T) *server {
	t.Helper()
	s := newServer(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	s.Claim("v", "a1", "n1")
	return s
}

// The machine of a node may write, and no server can know. So not everybody may say that it does not.
func TestLostNode_OrdersNeedTheOperatorSocket(t *testing.T) {
	s := serverWithVolume(t)
	s.Fencing = fakeFencing{devices: []*structs.FenceDevice{{Name: "ipmi", Scope: structs.FencePower}}}
	s.SetNodeDown("n1")
	word := &structs.NodeFenceRequest{NodeID: "n1", By: "ann", Why: "it burns"}
	rejected(s, structs.KindDenied, structs.NodeConfirmLost, word)
	rejected(s, structs.KindDenied, structs.NodeFence, word)
	rejected(s, structs.KindDenied, structs.NodeFenceTest, &structs.NodeGetRequest{NodeID: "n1"})
	must(s, structs.NodeFenceStatus, &structs.NodeGetRequest{NodeID: "n1"})
	if !s.Claimed() {
		t.Error("the claim was released")
	}
}

func TestNodeFence_OrdersARunForALostNode(t *testing.T) {
	type devices = []*structs.FenceDevice
	type request = structs.NodeFenceRequest
	power := &structs.FenceDevice{Name: "ipmi", Scope: structs.FencePower}
	other := &structs.FenceDevice{Name: "san", Scope: structs.FenceStorage}
	covering := &structs.FenceDevice{Name: "san", Scope: structs.FenceStorage, Covers: 1}
	req := &request{NodeID: "n1", By: "ann", Why: "no answer"}
	for name, c := range map[string]struct {
		up      bool
		devices devices
		change  func(*request)
		kind    structs.Kind // "": it is ordered
	}{
		"a power switch":     {false, devices{power}, nil, ""},
		"its storage":        {false, devices{other, covering}, nil, ""},
		"other storage":      {false, devices{other}, nil, structs.KindPrecondition},
		"no device":          {false, nil, nil, structs.KindPrecondition},
		"a node that is up":  {true, devices{power}, nil, structs.KindPrecondition},
		"an unknown node":    {false, devices{power}, func(r *request) { r.NodeID = "n9" }, structs.KindNotFound},
		"a very long reason": {false, devices{power}, func(r *request) { r.Why = tooLong }, structs.KindInvalid},
		"a very long name":   {false, devices{power}, func(r *request) { r.By = tooLong }, structs.KindInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := serverWithVolume(t)
			s.OverSocket = true
			s.Fencing = fakeFencing{devices: c.devices}
			if !c.up {
				s.SetNodeDown("n1")
			}
			sent := *req
			if c.change != nil {
				c.change(&sent)
			}
			if c.kind != "" {
				rejected(s, c.kind, structs.NodeFence, &sent)
			} else {
				must(s, structs.NodeFence, &sent)
			}
			order := state.FenceOrder(s.Store.Read(), "n1")
			if (order == nil) != (c.kind != "") || order != nil && (order.By != "ann" || order.Why != "no answer") {
				t.Errorf("the order is %+v", order)
			}
		})
	}
}

func TestNodeFenceStatus_HasWhatAnOperatorDecidesOn(t *testing.T) {
	s := serverWithVolume(t)
	s.OverSocket = true
	s.Fencing = fakeFencing{devices: []*structs.FenceDevice{{Name: "ipmi", Scope: structs.FencePower}}}
	s.SetNodeDown("n1")
	must(s, structs.NodeFence, &structs.NodeFenceRequest{NodeID: "n1"})
	for i := range 2 {
		mustPropose(s, fsm.FenceBegin, &structs.FenceBeginRequest{
			NodeID: "n1", Epoch: state.Node(s.Store.Read(), "n1").Epoch, Number: uint64(i + 1), Attempt: 1, Device: "ipmi",
		})
		mustPropose(s, fsm.FenceEnd, &structs.FenceEndRequest{
			NodeID: "n1", Number: uint64(i + 1), Cause: structs.FenceCauseAgent,
		})
	}
	got := must(s, structs.NodeFenceStatus, &structs.NodeGetRequest{NodeID: "n1"})
	switch {
	case got.Status != structs.NodeDown || got.Order == nil || got.Order.By != "an operator" || got.Brake != nil:
		t.Errorf("got %+v", got)
	case len(got.Runs) != 2 || got.Runs[0].Number != 2:
		t.Errorf("the newest run is not the first: %+v", got.Runs)
	case len(got.Claims) != 1 || got.Claims[0].VolumeID != "v" || got.Claims[0].OnNodeLoss != structs.LossHold:
		t.Errorf("the claims are %+v", got.Claims)
	case len(got.Devices) != 1 || got.Devices[0].Covers != 1:
		t.Errorf("the devices are %+v", got.Devices)
	}
	rejected(s, structs.KindNotFound, structs.NodeFenceStatus, &structs.NodeGetRequest{NodeID: "n9"})
}

func TestNodeConfirmLost_ReleasesTheClaims(t *testing.T) {
	s := serverWithVolume(t)
	s.OverSocket = true
	word := &structs.NodeFenceRequest{NodeID: "n1", By: "ann", Why: "it burns"}
	rejected(s, structs.KindPrecondition, structs.NodeConfirmLost, word)
	s.SetNodeDown("n1")
	long := *word
	long.Why = tooLong
	rejected(s, structs.KindInvalid, structs.NodeConfirmLost, &long)
	if !s.Claimed() {
		t.Error("the claim was released without a word")
	}
	must(s, structs.NodeConfirmLost, word)
	runs := state.FenceRuns(s.Store.Read(), "n1")
	if s.Claimed() || len(runs) != 1 || runs[0].Begun != s.Clock.UnixNano() {
		t.Errorf("the claim is there: %t; the runs are %+v", s.Claimed(), runs)
	}
}

func TestNodeFenceTest_ShowsTheDevices(t *testing.T) {
	s := serverWithVolume(t)
	s.OverSocket = true
	if got := must(s, structs.NodeFenceTest, &structs.NodeGetRequest{NodeID: "n1"}); len(got.Results) != 0 {
		t.Errorf("without devices: %+v", got.Results)
	}
	s.Fencing = fakeFencing{tests: []*structs.FenceTest{{Device: "ipmi", OK: true}}}
	got := must(s, structs.NodeFenceTest, &structs.NodeGetRequest{NodeID: "n1"})
	if len(got.Results) != 1 || got.Results[0].Device != "ipmi" {
		t.Errorf("got %+v", got.Results)
	}
	rejected(s, structs.KindNotFound, structs.NodeFenceTest, &structs.NodeGetRequest{NodeID: "n9"})
}
