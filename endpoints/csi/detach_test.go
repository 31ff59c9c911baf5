package csi_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

var (
	plainDetach = &structs.CSIVolumeDetachRequest{VolumeID: "v", NodeID: "n1"}
	forceDetach = &structs.CSIVolumeDetachRequest{
		VolumeID: "v",
		NodeID:   "n1",
		Force:    true,
		Reason:   "the plugin hangs",
		By:       "ann@desk",
	}
	busy = structs.Errorf(structs.KindTimeout, "NodeUnstageVolume: the plugin has not answered")
)

// serverWithClaim is a server with the volume v, which the allocation a1 uses on n1.
func serverWithClaim(t *testing.T) (*endpointstest.Server, *endpointstest.FakeNode) {
	s := endpointstest.New(t)
	n := s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	s.Claim("v", "a1", "n1")
	n.Calls = nil
	return s, n
}

// serverWithEndedClaim is a server with the volume v, which an ended allocation holds on n1.
func serverWithEndedClaim(t *testing.T) (*endpointstest.Server, *endpointstest.FakeNode) {
	s, n := serverWithClaim(t)
	s.EndAlloc("a1", "n1")
	return s, n
}

// reportVolume makes the node report its state of the volume and release nothing.
func reportVolume(n *endpointstest.FakeNode, volume *nodecalls.ClientCSINodeVolumeResponse, err error) {
	n.Answer = func(method string, _, resp any) error {
		if method != nodecalls.ClientCSINodeVolume.Name {
			return busy
		}
		if volume != nil {
			*resp.(*nodecalls.ClientCSINodeVolumeResponse) = *volume
		}
		return err
	}
}

func TestDetach_IsRejectedWhileTheAllocationRuns(t *testing.T) {
	s, _ := serverWithClaim(t)
	for _, req := range []*structs.CSIVolumeDetachRequest{plainDetach, forceDetach} {
		endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDetach,
			req), "alloc stop a1")
	}
}

func TestDetach_CallsTheNodeAndReleases(t *testing.T) {
	s, n := serverWithEndedClaim(t)
	endpointstest.Must(s, structs.CSIVolumeDetach, plainDetach)
	if !slices.Equal(n.Called(), []string{"ClientCSI.NodeDetachVolume"}) || s.Claimed() {
		t.Errorf("called %v; claimed %v", n.Called(), s.Claimed())
	}
	endpointstest.Must(s, structs.CSIVolumeDetach, plainDetach) // nothing left: done
}

func TestDetach_KeepsTheClaimWhenTheNodeFails(t *testing.T) {
	s, n := serverWithEndedClaim(t)
	n.Answer = func(string, any, any) error { return structs.Errorf(structs.KindInternal, "device busy") }
	err := endpointstest.Rejected(s, structs.KindInternal, structs.CSIVolumeDetach, plainDetach)
	if !strings.Contains(err.Error(), "device busy") || !s.Claimed() {
		t.Errorf("got %v; claimed %v", err, s.Claimed())
	}
}

func TestDetach_OfADownNodeNeedsForce(t *testing.T) {
	s, n := serverWithClaim(t)
	s.SetNodeDown("n1")
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeDetach,
		plainDetach), "force")
	n.Answer = func(string, any, any) error { return structs.Errorf(structs.KindTimeout, "no answer") }
	s.OverSocket = true
	got := endpointstest.Must(s, structs.CSIVolumeDetach, forceDetach)
	if !slices.Equal(n.Called(), []string{"ClientCSI.NodeVolume"}) || s.Claimed() {
		t.Errorf("called %v; claimed %v", n.Called(), s.Claimed())
	}
	if got.Proof != structs.DetachVouched || !strings.Contains(got.Detail, "nothing proves") ||
		strings.Contains(got.Detail, "has released") {
		t.Errorf("got %+v, want no more than the proof", got)
	}
}

func TestDetach_ForceDoesNotOverruleARunningAllocation(t *testing.T) {
	s, n := serverWithEndedClaim(t)
	n.Answer = func(string, any, any) error {
		return structs.Errorf(structs.KindConflict, "allocation a1 still runs")
	}
	endpointstest.Rejected(s, structs.KindConflict, structs.CSIVolumeDetach, forceDetach)
	if !s.Claimed() {
		t.Error("the claim was released under a process that writes")
	}
}

func TestDetach_ForceDoesNotEndAnAllocationOnAReturnedNode(t *testing.T) {
	s, n := serverWithClaim(t)
	for _, status := range []string{structs.NodeDown, structs.NodeReady} {
		endpointstest.MustPropose(s, fsm.NodeStatus,
			&structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: status})
		if status == structs.NodeDown {
			s.LoseAlloc("a1")
		}
	}
	n.Answer = func(string, any, any) error { return structs.Errorf(structs.KindTimeout, "no answer") }
	endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeDetach, forceDetach)
	if !s.Claimed() {
		t.Error("the claim was released under a process that may write")
	}
	n.Answer = nil
	endpointstest.Must(s, structs.CSIVolumeDetach, forceDetach)
	if s.Claimed() {
		t.Error("the claim is still there after the node released it")
	}
}

func TestDetach_OfAMissingVolumeIsNotFound(t *testing.T) {
	s, _ := serverWithClaim(t)
	endpointstest.Rejected(s, structs.KindNotFound, structs.CSIVolumeDetach, &structs.CSIVolumeDetachRequest{
		VolumeID: "w",
		NodeID:   "n1",
	})
}

func TestForcedDetach_IsRejectedWhileTheNodeHasTheVolume(t *testing.T) {
	for name, c := range map[string]struct {
		has  *nodecalls.ClientCSINodeVolumeResponse
		err  error
		down bool
		kind structs.Kind
		want []string
	}{
		"mounted": {
			has: &nodecalls.ClientCSINodeVolumeResponse{
				Mounts: []string{"/b/csi/v/x/mount", "/b/csi/v/x/stage"},
			},
			kind: structs.KindPrecondition,
			want: []string{"Node name-n1 (n1) still has volume", "/b/csi/v/x/mount", "/b/csi/v/x/stage",
				"restart the plugin", "power the node off", "has not answered"},
		},
		"a pending stage": {
			has:  &nodecalls.ClientCSINodeVolumeResponse{Pending: []string{"NodeStageVolume, unanswered"}},
			kind: structs.KindPrecondition,
			want: []string{"NodeStageVolume, unanswered"},
		},
		"the lease has ended, and the node answers": {
			has:  &nodecalls.ClientCSINodeVolumeResponse{Mounts: []string{"/m"}},
			down: true,
			kind: structs.KindPrecondition,
			want: []string{"/m"},
		},
		"the node is up and does not answer": {
			err:  structs.Errorf(structs.KindTimeout, "no answer"),
			kind: structs.KindUnavailable,
			want: []string{"is up and does not report", "power it off"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := serverWithEndedClaim(t)
			reportVolume(n, c.has, c.err)
			if c.down {
				s.SetNodeDown("n1")
			}
			err := endpointstest.Rejected(s, c.kind, structs.CSIVolumeDetach, forceDetach)
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want %q in it", err, want)
				}
			}
			if !s.Claimed() {
				t.Error("the claim was released")
			}
		})
	}
}

func TestForcedDetach_RecordsTheProof(t *testing.T) {
	for name, c := range map[string]struct {
		has   *nodecalls.ClientCSINodeVolumeResponse
		err   error
		down  bool
		proof string
		want  string
	}{
		"the node sees nothing mounted": {
			has:   &nodecalls.ClientCSINodeVolumeResponse{},
			proof: structs.DetachNotMounted,
			want:  "sees nothing of volume",
		},
		"the node is down": {
			err:   structs.Errorf(structs.KindUnavailable, "no connection"),
			down:  true,
			proof: structs.DetachVouched,
			want:  "nothing proves",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := serverWithEndedClaim(t)
			reportVolume(n, c.has, c.err)
			if c.down {
				s.SetNodeDown("n1")
				s.OverSocket = true
			}
			got := endpointstest.Must(s, structs.CSIVolumeDetach, forceDetach)
			if got.Proof != c.proof || !strings.Contains(got.Detail, c.want) ||
				strings.Contains(got.Detail, "has released") || s.Claimed() {
				t.Errorf("got the answer %+v; claimed %v", got, s.Claimed())
			}
			f := s.GetVolume("v").Forced
			if f == nil || f.By != "ann@desk" || f.Reason != "the plugin hangs" || f.NodeID != "n1" || f.Time == 0 {
				t.Errorf("got record %+v", f)
			}
			events := state.Node(s.Store.Read(), "n1").Events
			if !slices.ContainsFunc(events, func(e *structs.NodeEvent) bool {
				return strings.Contains(e.Message, "ann@desk: the plugin hangs")
			}) {
				t.Errorf("the events of the node do not have the record: %+v", events)
			}
		})
	}
}

func TestDetach_ReportsTheReleaseOfANode(t *testing.T) {
	s, _ := serverWithEndedClaim(t)
	got := endpointstest.Must(s, structs.CSIVolumeDetach, plainDetach)
	if got.Proof != structs.DetachLetGo || !strings.Contains(got.Detail, "has released volume") || s.Claimed() {
		t.Errorf("got the answer %+v", got)
	}
}

// Only an operator makes a node repeat a call that its plugin has rejected with a final error.
func TestDetach_MarksCallsOfOperators(t *testing.T) {
	s, n := serverWithEndedClaim(t)
	var byOperator []bool
	n.Answer = func(_ string, req, _ any) error {
		byOperator = append(byOperator, req.(*nodecalls.ClientCSINodeDetachRequest).ByOperator)
		return nil
	}
	key := structs.CSIClaimKey{
		Namespace: "default",
		VolumeID:  "v",
		AllocID:   "a1",
	}
	detach := nodeconn.Detach{Claim: key, NodeID: "n1"}
	if err := nodeconn.DetachFromNode(t.Context(), s.Nodes, time.Minute, detach); err != nil {
		t.Fatal(err)
	}
	endpointstest.Must(s, structs.CSIVolumeDetach, plainDetach)
	if !slices.Equal(byOperator, []bool{false, true}) {
		t.Errorf("calls by an operator: %v, want the second", byOperator)
	}
}

// serverWithFailedDetach is a server with the volume v, which n1 has released and whose detach has failed.
func serverWithFailedDetach(t *testing.T) (*endpointstest.Server, *endpointstest.FakeNode) {
	s, n := serverWithEndedClaim(t)
	endpointstest.Must(s, structs.CSIVolumeDetach, plainDetach)
	failDetach(s, structs.NeverTry)
	return s, n
}

func failDetach(s *endpointstest.Server, nextTry int64) {
	endpointstest.MustPropose(s, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID: "v",
		NodeID:   "n1",
		Op:       "detach",
		Err: &structs.OperationError{
			Message:   "no such node",
			Kind:      structs.KindNotFound,
			Code:      "NotFound",
			RetryTime: nextTry,
		},
	})
}

func attachmentRow(s *endpointstest.Server) *structs.CSIAttachment {
	return csi.Attachment(s.Store.Read(), "default", "v", "n1")
}

func TestDetach_WithoutClaimsCallsTheControllerAtOnce(t *testing.T) {
	s, _ := serverWithFailedDetach(t)
	got := endpointstest.Must(s, structs.CSIVolumeDetach, plainDetach)
	if got.Proof != structs.DetachPending || !strings.Contains(got.Detail, "no such node") {
		t.Errorf("got the answer %+v", got)
	}
	if e := attachmentRow(s).LastError; e.RetryTime <= 0 {
		t.Errorf("got %+v, want a time of the next attempt", e)
	}
}

func TestForcedDetach_DeletesAnUnconfirmedAttachment(t *testing.T) {
	s, n := serverWithFailedDetach(t)
	reportVolume(n, &nodecalls.ClientCSINodeVolumeResponse{Mounts: []string{"/m"}}, nil)
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDetach, forceDetach)
	reportVolume(n, nil, structs.Errorf(structs.KindTimeout, "no answer")) // the node is up, and may have it mounted
	endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeDetach, forceDetach)
	reportVolume(n, &nodecalls.ClientCSINodeVolumeResponse{}, nil)
	got := endpointstest.Must(s, structs.CSIVolumeDetach, forceDetach)
	if got.Proof != structs.DetachForgotten || !strings.Contains(got.Detail, "did not confirm") ||
		attachmentRow(s) != nil {
		t.Errorf("got the answer %+v; attachment %+v", got, attachmentRow(s))
	}
	f := s.GetVolume("v").Forced
	if f == nil || f.By != "ann@desk" {
		t.Errorf("got record %+v", f)
	}
	byOperator := false
	n.Answer = func(_ string, req, _ any) error {
		byOperator = req.(*nodecalls.ClientCSINodeDetachRequest).ByOperator
		return nil
	}
	got = endpointstest.Must(s, structs.CSIVolumeDetach, forceDetach)
	if got.Proof != structs.DetachPending || attachmentRow(s) == nil || !byOperator {
		t.Errorf("without a row: %+v, by an operator %t", got, byOperator)
	}
}

func TestForcedDetach_BoundsItsTexts(t *testing.T) {
	s, _ := serverWithFailedDetach(t)
	long := *forceDetach
	long.Reason = strings.Repeat("x", structs.MaxText+1)
	endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeDetach, &long)
	long.Reason = "r"
	long.By = strings.Repeat("x", structs.MaxName+1)
	endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeDetach, &long)
}

func TestForcedDetach_KeepsADetachWithoutAFailure(t *testing.T) {
	s, _ := serverWithEndedClaim(t)
	endpointstest.Must(s, structs.CSIVolumeDetach, plainDetach)
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDetach, forceDetach)
	if attachmentRow(s) == nil {
		t.Error("the attachment was deleted")
	}
}

// A controller that has not answered may still detach: if the attachment were deleted, the late detach would
// remove the volume from its next user. A controller that is gone does not hold the volume for ever.
func TestForcedDetach_KeepsACallThatMayStillTakeEffect(t *testing.T) {
	s, n := serverWithFailedDetach(t)
	reportVolume(n, &nodecalls.ClientCSINodeVolumeResponse{}, nil)
	call := &structs.CSICall{
		NodeID: "n9",
		Op:     "detach",
		Time:   s.Clock.UnixNano(),
	}
	endpointstest.MustPropose(s, fsm.CallNote, &structs.CSICallNote{
		VolumeID: "v",
		NodeID:   "n1",
		RowIndex: attachmentRow(s).CreateIndex,
		Call:     call,
	})
	endpointstest.MustPropose(s, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID: "v",
		NodeID:   "n1",
		Op:       "detach",
		KeepCall: true,
		Err:      &structs.OperationError{Message: "no answer in time", Kind: structs.KindTimeout},
	})
	settled := s.Clock.Add(structs.CallSettles)
	s.Clock = settled.Add(-time.Nanosecond)
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDetach, forceDetach)
	for _, want := range []string{"node n9", "the detach for node name-n1", "force again after " +
		settled.UTC().Format(time.RFC3339)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %q, want %q in it", err, want)
		}
	}
	if a := attachmentRow(s); a == nil || a.Call == nil {
		t.Fatalf("got attachment %+v, want its call", a)
	}
	if f := s.GetVolume("v").Forced; f != nil {
		t.Errorf("the rejected request left the record %+v", f)
	}
	s.Clock = settled
	got := endpointstest.Must(s, structs.CSIVolumeDetach, forceDetach)
	if got.Proof != structs.DetachForgotten || attachmentRow(s) != nil {
		t.Errorf("got the answer %+v; attachment %+v", got, attachmentRow(s))
	}
}

// serverWithCall has a volume v with a call to expand it, which was sent just now to node n1.
func serverWithCall(t *testing.T) *endpointstest.Server {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	endpointstest.MustPropose(s, fsm.CallNote, &structs.CSICallNote{
		VolumeID: "v",
		RowIndex: s.GetVolume("v").CreateIndex,
		Call: &structs.CSICall{
			NodeID: "n1",
			Op:     "expand",
			Time:   s.Clock.UnixNano(),
		},
	})
	return s
}

func TestDeregister_KeepsACallThatMayStillTakeEffect(t *testing.T) {
	s := serverWithCall(t)
	settled := s.Clock.Add(structs.CallSettles)
	s.Clock = settled.Add(-time.Nanosecond)
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDeregister,
		&structs.CSIVolumeDeregisterRequest{ID: "v"})
	endpointstest.WantText(t, err, "deregister it after "+settled.UTC().Format(time.RFC3339))
	endpointstest.WantText(t, err, "-force does not wait for it")
	s.Clock = settled
	endpointstest.Must(s, structs.CSIVolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v"})
}

// A faulty controller is called again and again, and each call may still take effect. It keeps no row for
// ever.
func TestDeregister_ForceWaitsForNoCall(t *testing.T) {
	s := serverWithCall(t)
	endpointstest.Must(s, structs.CSIVolumeDeregister, &structs.CSIVolumeDeregisterRequest{
		ID:     "v",
		Force:  true,
		Settle: time.Hour, // only the server sets it
	})
}

func TestForcedDetach_DeletesTheAttachmentOfADeregisteredVolume(t *testing.T) {
	s, _ := serverWithFailedDetach(t)
	endpointstest.Must(s, structs.CSIVolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v", Force: true})
	endpointstest.Must(s, structs.CSIVolumeDetach, forceDetach)
	if attachmentRow(s) != nil {
		t.Error("the attachment was not deleted")
	}
}

// report makes the node report that it does not make a call.
func reportEndingCall(s *endpointstest.Server, node, rpc, volume string) {
	s.T.Helper()
	i := *csi.Instance(s.Store.Read(), "pl", structs.CSIKindNode, node)
	i.EndingCalls = []*structs.CSIEndingCall{{RPC: rpc, Volume: volume, Time: 1}}
	row := *state.Node(s.Store.Read(), node)
	endpointstest.MustPropose(s, fsm.NodeRegister, &structs.NodeRegisterRequest{
		Node: &row,
		CSI:  []*structs.CSIPluginInstance{&i},
	})
}

// A node must not reject the next call because of the calls before the repair.
func TestRetry_AllowsCallsThatEndedThePlugin(t *testing.T) {
	s, n := serverWithFailedDetach(t)
	other := s.AddNode("n2", "a")
	volume := csi.Volume(s.Store.Read(), "default", "v")
	reportEndingCall(s, "n1", "NodePublishVolume", volume.ExternalID)
	reportEndingCall(s, "n2", "NodePublishVolume", "another")
	var got []*nodecalls.ClientCSIAllowCallsRequest
	n.Answer = func(_ string, req, _ any) error {
		if e := attachmentRow(s).LastError; e.RetryTime != structs.NeverTry {
			t.Error("the failed calls are due before the node makes them")
		}
		got = append(got, req.(*nodecalls.ClientCSIAllowCallsRequest))
		return nil
	}
	other.Answer = func(string, any, any) error {
		t.Error("a node without such calls is called")
		return nil
	}
	endpointstest.Must(s, structs.CSIVolumeRetry, &structs.CSIVolumeRetryRequest{ID: "v"})
	if len(got) != 1 || got[0].PluginID != "pl" || !slices.Contains(got[0].Volumes, volume.ExternalID) ||
		!slices.Contains(got[0].Volumes, "name:"+volume.NameAtPlugin()) {
		t.Errorf("the node got %+v", got)
	}

	failDetach(s, structs.NeverTry)
	n.Answer = func(string, any, any) error { return structs.Timeoutf("no answer") }
	endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeRetry,
		&structs.CSIVolumeRetryRequest{ID: "v"})
	if e := attachmentRow(s).LastError; e.RetryTime <= 0 {
		t.Errorf("the other calls are not due: %+v", e)
	}
}

// The nodes of the allocations that have the volume and do not run yet make a failed mount again. Of their
// answers only their own claims count.
func TestRetry_MakesTheMountsOfWaitingAllocationsDue(t *testing.T) {
	s, n := serverWithClaim(t)
	other := s.AddNode("n2", "a")
	s.AddAlloc("a2", "n2")
	s.AddAlloc("a3", "n1")
	s.Claim("v", "a3", "n1") // its mount has not failed
	var got []*nodecalls.ClientCSIAllowCallsRequest
	n.Answer = func(_ string, req, resp any) error {
		got = append(got, req.(*nodecalls.ClientCSIAllowCallsRequest))
		resp.(*nodecalls.ClientCSIAllowCallsResponse).AllocIDs = []string{"a1", "a2", "forged"}
		return nil
	}
	other.Answer = func(string, any, any) error {
		t.Error("a node without the volume is called")
		return nil
	}
	retried := endpointstest.Must(s, structs.CSIVolumeRetry, &structs.CSIVolumeRetryRequest{ID: "v"})
	if len(got) != 1 || got[0].VolumeNamespace != "default" || got[0].VolumeID != "v" {
		t.Errorf("the node got %+v", got)
	}
	if m := retried.Mounts; len(m) != 1 || *m[0] != (structs.CSIRetriedMount{NodeID: "n1", AllocID: "a1"}) {
		t.Errorf("got %+v, want the mount of a1", m)
	}

	endpointstest.Must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Allocs: []*structs.AllocClientUpdate{
			{ID: "a1", ClientStatus: structs.AllocRunning},
			{ID: "a3", ClientStatus: structs.AllocRunning},
		},
	})
	n.Answer = other.Answer
	endpointstest.Must(s, structs.CSIVolumeRetry, &structs.CSIVolumeRetryRequest{ID: "v"})
}

// Nodes that hang delay the command once, and not one after the other.
func TestRetry_CallsTheNodesSideBySide(t *testing.T) {
	s, n := serverWithFailedDetach(t)
	nodes := []*endpointstest.FakeNode{n, s.AddNode("n2", "a"), s.AddNode("n3", "a")}
	volume := csi.Volume(s.Store.Read(), "default", "v")
	var called atomic.Int32
	all := make(chan struct{})
	for i, node := range nodes {
		reportEndingCall(s, fmt.Sprintf("n%d", i+1), "NodePublishVolume", volume.ExternalID)
		node.Answer = func(string, any, any) error {
			if int(called.Add(1)) == len(nodes) {
				close(all)
			}
			select {
			case <-all:
				return structs.Unavailablef("node %d hangs", i+1)
			case <-time.After(10 * time.Second):
				return structs.Timeoutf("the others are not called before this node answers")
			}
		}
	}
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeRetry,
		&structs.CSIVolumeRetryRequest{ID: "v"})
	for i := range nodes {
		if !strings.Contains(err.Error(), fmt.Sprintf("node %d hangs", i+1)) {
			t.Errorf("got %v", err)
		}
	}
	if e := attachmentRow(s).LastError; e.RetryTime <= 0 {
		t.Errorf("the calls of the servers are not due: %+v", e)
	}
}

func TestRetry_MakesFailedCallsDue(t *testing.T) {
	s, _ := serverWithFailedDetach(t)
	endpointstest.Must(s, structs.CSIVolumeRetry, &structs.CSIVolumeRetryRequest{ID: "v"})
	if e := attachmentRow(s).LastError; e.RetryTime <= 0 || e.Attempts != 1 {
		t.Errorf("got the last error %+v, want one attempt that is due", e)
	}
	endpointstest.Rejected(s, structs.KindNotFound, structs.CSIVolumeRetry,
		&structs.CSIVolumeRetryRequest{ID: "w"})
}
