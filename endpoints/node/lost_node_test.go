package node_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// tooLong is longer than each text of an operator may be.
var tooLong = strings.Repeat("x", structs.MaxText+1)

// fakeFencing has devices that fence each node, or each node with a pin.
type fakeFencing struct {
	devices []*cluster.FenceDevice
	tests   []*cluster.FenceTest
	needs   string // the name of the pin
}

func (f fakeFencing) For(t *state.FenceTarget, claims []*cluster.LostClaim) (
	[]*cluster.FenceDevice, []*cluster.FenceMismatch,
) {
	if f.needs != "" && t.Pins[f.needs] == "" {
		return nil, []*cluster.FenceMismatch{{Name: "ipmi", Reason: "no pin " + f.needs}}
	}
	for _, d := range f.devices {
		if d.Scope == cluster.FencePower {
			d.Covers = len(claims)
		}
	}
	return f.devices, nil
}

func (f fakeFencing) Test(context.Context, *state.FenceTarget) []*cluster.FenceTest { return f.tests }

// serverWithVolume is a server whose node n1 uses the volume v.
func serverWithVolume(t *testing.T) *endpointstest.Server {
	t.Helper()
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	s.Claim("v", "a1", "n1")
	return s
}

// The machine of a node may write, and no server can know. So not everybody may say that it does not.
func TestLostNode_OrdersNeedTheOperatorSocket(t *testing.T) {
	s := serverWithVolume(t)
	s.Fencing = fakeFencing{devices: []*cluster.FenceDevice{{Name: "ipmi", Scope: cluster.FencePower}}}
	s.SetNodeDown("n1")
	word := &cluster.NodeFenceRequest{NodeID: "n1", By: "ann", Why: "it burns"}
	endpointstest.Rejected(s, structs.KindDenied, cluster.NodeConfirmLost, word)
	endpointstest.Rejected(s, structs.KindDenied, cluster.NodeFence, word)
	endpointstest.Rejected(s, structs.KindDenied, cluster.NodeFenceTest, &structs.NodeGetRequest{NodeID: "n1"})
	endpointstest.Must(s, cluster.NodeFenceStatus, &structs.NodeGetRequest{NodeID: "n1"})
	if !s.Claimed() {
		t.Error("the claim was released")
	}
}

// TestWhy_AdvisesAFenceWithADeviceAlone: the servers would reject the order for a node that no device fences.
func TestWhy_AdvisesAFenceWithADeviceAlone(t *testing.T) {
	s := serverWithVolume(t)
	s.EndAlloc("a1", "n1")
	s.SetNodeDown("n1")
	job := &structs.JobGetRequest{JobID: "job-a1"}
	check := func(subject string, why func() *structs.WhyResponse) {
		t.Helper()
		for _, d := range []*cluster.FenceDevice{
			{Name: "ipmi", Scope: cluster.FencePower}, {Name: "san", Scope: cluster.FenceStorage},
		} {
			s.Fencing = fakeFencing{devices: []*cluster.FenceDevice{d}}
			text := why().Text
			advised := strings.Contains(text, "berth node fence n1")
			if advised != (d.Scope == cluster.FencePower) || !strings.Contains(text, "berth node confirm-lost") {
				t.Errorf("%s: with device %s:\n%s", subject, d.Name, text)
			}
		}
		s.Fencing = nil
		if text := why().Text; strings.Contains(text, "berth node fence") {
			t.Errorf("%s: without a device:\n%s", subject, text)
		}
	}
	check("the volume", func() *structs.WhyResponse {
		return endpointstest.Must(s, structs.VolumeWhy, &structs.CSIVolumeGetRequest{ID: "v"})
	})
	ofJob := func() *structs.WhyResponse { return endpointstest.Must(s, structs.JobWhy, job) }
	endpointstest.Must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: job.JobID})
	check("the job", ofJob)
	endpointstest.Must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: job.JobID, Purge: true})
	check("the deleted job", ofJob)
}

// The ages in an answer count in the time by which the servers have stamped the rows.
func TestWhy_CountsInTheTimeOfTheRows(t *testing.T) {
	s := serverWithVolume(t)
	s.SetNodeDown("n1")
	s.Clock = s.Clock.Add(time.Hour)
	text := endpointstest.Must(s, structs.VolumeWhy, &structs.CSIVolumeGetRequest{ID: "v"}).Text
	if !strings.Contains(text, "has been down for 1h0m0s") {
		t.Errorf("after an hour:\n%s", text)
	}
}

func TestNodeFence_OrdersARunForALostNode(t *testing.T) {
	type devices = []*cluster.FenceDevice
	type request = cluster.NodeFenceRequest
	power := &cluster.FenceDevice{Name: "ipmi", Scope: cluster.FencePower}
	other := &cluster.FenceDevice{Name: "san", Scope: cluster.FenceStorage}
	covering := &cluster.FenceDevice{Name: "san", Scope: cluster.FenceStorage, Covers: 1}
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
				endpointstest.Rejected(s, c.kind, cluster.NodeFence, &sent)
			} else {
				endpointstest.Must(s, cluster.NodeFence, &sent)
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
	s.Fencing = fakeFencing{devices: []*cluster.FenceDevice{{Name: "ipmi", Scope: cluster.FencePower}}}
	s.SetNodeDown("n1")
	endpointstest.Must(s, cluster.NodeFence, &cluster.NodeFenceRequest{NodeID: "n1"})
	for i := range 2 {
		endpointstest.MustPropose(s, fsm.FenceBegin, &cluster.FenceBeginRequest{
			NodeID: "n1", Epoch: state.Node(s.Store.Read(), "n1").Epoch, Number: uint64(i + 1), Attempt: 1, Device: "ipmi",
		})
		endpointstest.MustPropose(s, fsm.FenceEnd, &cluster.FenceEndRequest{
			NodeID: "n1", Number: uint64(i + 1), Cause: cluster.FenceCauseAgent,
		})
	}
	got := endpointstest.Must(s, cluster.NodeFenceStatus, &structs.NodeGetRequest{NodeID: "n1"})
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
	endpointstest.Rejected(s, structs.KindNotFound, cluster.NodeFenceStatus,
		&structs.NodeGetRequest{NodeID: "n9"})
}

func TestNodeConfirmLost_ReleasesTheClaims(t *testing.T) {
	s := serverWithVolume(t)
	s.OverSocket = true
	word := &cluster.NodeFenceRequest{NodeID: "n1", By: "ann", Why: "it burns"}
	endpointstest.Rejected(s, structs.KindPrecondition, cluster.NodeConfirmLost, word)
	s.SetNodeDown("n1")
	long := *word
	long.Why = tooLong
	endpointstest.Rejected(s, structs.KindInvalid, cluster.NodeConfirmLost, &long)
	if !s.Claimed() {
		t.Error("the claim was released without a word")
	}
	endpointstest.Must(s, cluster.NodeConfirmLost, word)
	runs := state.FenceRuns(s.Store.Read(), "n1")
	if s.Claimed() || len(runs) != 1 || runs[0].Begun != s.Clock.UnixNano() {
		t.Errorf("the claim is there: %t; the runs are %+v", s.Claimed(), runs)
	}
}

func TestNodeFenceTest_ShowsTheDevices(t *testing.T) {
	s := serverWithVolume(t)
	s.OverSocket = true
	if got := endpointstest.Must(s, cluster.NodeFenceTest,
		&structs.NodeGetRequest{NodeID: "n1"}); len(got.Results) != 0 {
		t.Errorf("without devices: %+v", got.Results)
	}
	s.Fencing = fakeFencing{tests: []*cluster.FenceTest{{Device: "ipmi", OK: true}}}
	got := endpointstest.Must(s, cluster.NodeFenceTest, &structs.NodeGetRequest{NodeID: "n1"})
	if len(got.Results) != 1 || got.Results[0].Device != "ipmi" {
		t.Errorf("got %+v", got.Results)
	}
	endpointstest.Rejected(s, structs.KindNotFound, cluster.NodeFenceTest, &structs.NodeGetRequest{NodeID: "n9"})
}
