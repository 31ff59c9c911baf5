package csi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/agenttest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

func TestClaim_IsForAllocationsOfNode(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	request := func(node string, c *structs.CSIClaim) *structs.CSIVolumeClaimRequest {
		return &structs.CSIVolumeClaimRequest{
			NodeID:   node,
			SecretID: endpointstest.SecretOf(node),
			Claims:   []*structs.CSIClaim{c},
		}
	}
	for name, c := range map[string]struct {
		node  string
		claim *structs.CSIClaim
		kind  structs.Kind
	}{
		"another node's allocation": {"n2", endpointstest.Claim("v", "a1"), structs.KindDenied},
		"for another node": {"n1", &structs.CSIClaim{VolumeID: "v", AllocID: "a1", NodeID: "n2"},
			structs.KindDenied},
		"no allocation": {"n1", endpointstest.Claim("v", "a9"), structs.KindNotFound},
		"no volume":     {"n1", endpointstest.Claim("w", "a1"), structs.KindNotFound},
		"nothing":       {"n1", nil, structs.KindInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rpc.Call(t.Context(), s.RPC, structs.CSIVolumeClaim,
				agenttest.Request(request(c.node, c.claim)))
			if structs.KindOf(err) != c.kind {
				t.Errorf("got %v, want %s", err, c.kind)
			}
		})
	}
	got := s.Claim("v", "a1", "n1")
	if got.State != structs.ClaimGranted || got.NodeID != "n1" ||
		got.PluginID != "pl" || got.JobID != "job-a1" {
		t.Errorf("got %+v", got)
	}
	release := &structs.CSIVolumeUnpublishRequest{
		NodeID:   "n2",
		SecretID: endpointstest.SecretOf("n2"),
		Claims:   []structs.CSIClaimKey{{Namespace: "default", VolumeID: "v", AllocID: "a1"}},
	}
	endpointstest.Rejected(s, structs.KindDenied, structs.CSIVolumeUnpublish, release)
	release.NodeID = "n1"
	release.SecretID = endpointstest.SecretOf("n1")
	release.Operator = "me"
	endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeUnpublish, release)
}

// newClaim returns a server with a claim whose volume is not attached yet, and the node's request to read it.
func newClaim(t *testing.T) (*endpointstest.Server, *structs.CSIClaimGetRequest) {
	t.Helper()
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	s.Claim("v", "a1", "n1")
	return s, &structs.CSIClaimGetRequest{
		VolumeID: "v",
		AllocID:  "a1",
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
	}
}

func TestClaimGet_WaitsForGrant(t *testing.T) {
	s, get := newClaim(t)
	got := endpointstest.Must(s, structs.CSIClaimGet, get)
	if got.Ready || !strings.Contains(got.Blocked, "attached to node") {
		t.Fatalf("before it is attached: ready %v, %q", got.Ready, got.Blocked)
	}
	get.MinIndex = got.Index
	answered := make(chan *structs.CSIClaimGetResponse)
	go func() {
		resp, err := rpc.Call(t.Context(), s.RPC, structs.CSIClaimGet, get)
		if err != nil {
			t.Error(err)
		}
		answered <- resp
	}()
	confirmAttach(s, "v", "n1")
	if got := <-answered; !got.Ready || got.Provider != "pl.csi" {
		t.Errorf("after the attach: ready %v (%q), driver %q", got.Ready, got.Blocked, got.Provider)
	}
}

func TestDuty_K2_K4_K17_ANodeHasToWaitForTheAttachAndGetsItsContext(t *testing.T) {
	s, get := newClaim(t)
	got := endpointstest.Must(s, structs.CSIClaimGet, get)
	if got.Claim.State != structs.ClaimGranted || got.Ready {
		t.Fatalf("before it is attached: the claim is %s, ready %v", got.Claim.State, got.Ready)
	}
	confirmAttach(s, "v", "n1")
	got = endpointstest.Must(s, structs.CSIClaimGet, get)
	if !got.Ready || got.Attachment.PublishContext["device"] != "hunter2" {
		t.Errorf("after the attach: ready %v, %d values", got.Ready, len(got.Attachment.PublishContext))
	}
}

// A claim may be older than the first controller of its plugin, and its node unknown to the plugin when the
// controller comes. Nothing is attached then.
func TestDuty_K2_K17_ANodeWaitsForAnAttachThatHasNotBegun(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	controller := func(attaches bool, removed ...structs.CSIInstanceKey) {
		endpointstest.MustPropose(s, fsm.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:  "n1",
			Removes: removed,
			Upserts: []*structs.CSIPluginInstance{{
				Kind:   structs.CSIKindController,
				NodeID: "n1",
				CSIInfo: structs.CSIInfo{
					PluginID:       "pl",
					Provider:       "pl.csi",
					Healthy:        true,
					ControllerInfo: &structs.CSIControllerInfo{SupportsAttachDetach: attaches},
				},
			}},
		})
	}
	controller(false)
	s.Claim("v", "a1", "n1")
	get := &structs.CSIClaimGetRequest{
		VolumeID: "v",
		AllocID:  "a1",
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
	}
	if got := endpointstest.Must(s, structs.CSIClaimGet, get); !got.Ready || got.Attachment != nil {
		t.Fatalf("of a plugin that does not attach: ready %v (%q)", got.Ready, got.Blocked)
	}
	controller(false, structs.CSIInstanceKey{PluginID: "pl", Kind: structs.CSIKindNode})
	controller(true)
	got := endpointstest.Must(s, structs.CSIClaimGet, get)
	if got.Claim.State != structs.ClaimGranted || got.Attachment != nil || got.Ready {
		t.Errorf("the claim is %s, its attachment %v, ready %v", got.Claim.State, got.Attachment, got.Ready)
	}
}

func TestClaimList_HasOrderOfQueue(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "b")
	s.AddVolume("v")
	s.AddVolume("w")
	for _, id := range []string{"a3", "a1", "a2"} {
		s.AddAlloc(id, "n1")
		s.Claim("v", id, "n1")
	}
	s.Claim("w", "a1", "n1")
	list := func(r structs.CSIClaimListRequest) string {
		var ids []string
		resp := endpointstest.Must(s, structs.CSIClaimList, &r)
		for _, c := range resp.Claims {
			ids = append(ids, c.VolumeID+c.AllocID)
		}
		return fmt.Sprint(ids)
	}
	for _, c := range []struct {
		req  structs.CSIClaimListRequest
		want string
	}{
		{structs.CSIClaimListRequest{VolumeID: "v"}, "[va3 va1 va2]"},
		{structs.CSIClaimListRequest{NodeID: "n1"}, "[va3 va1 va2 wa1]"},
		{structs.CSIClaimListRequest{}, "[va3 va1 va2 wa1]"},
		{structs.CSIClaimListRequest{NodeID: "n2"}, "[]"},
		{structs.CSIClaimListRequest{QueryOptions: structs.QueryOptions{Namespace: "other"}}, "[]"},
		{structs.CSIClaimListRequest{QueryOptions: structs.QueryOptions{Namespace: "*", Prefix: "w"}}, "[wa1]"},
	} {
		if got := list(c.req); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.req, got, c.want)
		}
	}
	vols := endpointstest.Must(s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{NodeID: "n1"}).Volumes
	if len(vols) != 2 || vols[0].ID != "v" {
		t.Errorf("volumes in use on n1: %+v", vols)
	}
	if vols := endpointstest.Must(s, structs.CSIVolumeList,
		&structs.CSIVolumeListRequest{PluginID: "other"}).Volumes; len(vols) != 0 {
		t.Errorf("volumes of another plugin: %d", len(vols))
	}
}

func TestVolumeExternal_ReturnsPagesOfPlugin(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.Rejected(s, structs.KindNotFound, structs.CSIVolumeExternal,
		&structs.CSIVolumeExternalRequest{PluginID: "pl"})
	n := s.AddNode("n1", "a")
	n.Answer = func(_ string, req, resp any) error {
		r := req.(*nodecalls.ClientCSIListRequest)
		*resp.(*nodecalls.ClientCSIListResponse) = nodecalls.ClientCSIListResponse{
			NextToken: r.StartingToken + "+",
			Volumes:   []*structs.CSIVolumeExternalStub{{ExternalID: fmt.Sprint(r.MaxEntries, r.StartingToken)}},
		}
		return nil
	}
	list := &structs.CSIVolumeExternalRequest{PluginID: "pl", QueryOptions: structs.QueryOptions{PerPage: 2}}
	for _, want := range []string{"2 1+", "2++ 1+++"} { // the plugin's pages have one volume
		got := endpointstest.Must(s, structs.CSIVolumeExternal, list)
		ids := externalIDs(got)
		if ids != want || got.NextToken == "" || !got.KnownLeader || len(got.Warnings) != 0 {
			t.Errorf("got %q, %+v, want %q", ids, got, want)
		}
		list.NextToken = got.NextToken
	}
	plugin := endpointstest.Must(s, structs.CSIPluginGet, &structs.CSIPluginGetRequest{ID: "pl"}).Plugin
	if plugin.NodesHealthy != 1 || len(endpointstest.Must(s, structs.CSIPluginList,
		&structs.QueryRequest{}).Plugins) != 1 {
		t.Errorf("the plugin is %+v", plugin)
	}
	endpointstest.Rejected(s, structs.KindNotFound, structs.CSIPluginGet,
		&structs.CSIPluginGetRequest{ID: "other"})
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIPluginDelete,
		&structs.CSIPluginDeleteRequest{ID: "pl"})
}

func externalIDs(r *structs.CSIVolumeExternalResponse) string {
	var ids []string
	for _, v := range r.Volumes {
		ids = append(ids, v.ExternalID)
	}
	return strings.Join(ids, " ")
}

func TestClaimGet_DoesNotWaitForMissingClaim(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	s.Claim("v", "a1", "n1")
	get := &structs.CSIClaimGetRequest{
		VolumeID: "v",
		AllocID:  "a1",
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
	}
	get.MinIndex = endpointstest.Must(s, structs.CSIClaimGet, get).Index
	answered := make(chan error)
	go func() {
		_, err := rpc.Call(t.Context(), s.RPC, structs.CSIClaimGet, get)
		answered <- err
	}()
	endpointstest.Must(s, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Claims:   []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a1"}},
	})
	if err := <-answered; !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("got %v, want not-found at once", err)
	}
}

// Only the node of an allocation says that its claim is guarded.
func TestClaim_IsGuardedWhereTheVolumeHasALease(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	v := endpointstest.Volume("v")
	v.ExternalID = "ext-v"
	v.OnNodeLoss = structs.LossLease
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
	claim := func(alloc, node string, guarded bool) *structs.CSIVolumeClaimRequest {
		c := endpointstest.Claim("v", alloc)
		c.Guarded = guarded
		return &structs.CSIVolumeClaimRequest{
			NodeID:   node,
			SecretID: endpointstest.SecretOf(node),
			Claims:   []*structs.CSIClaim{c},
		}
	}
	s.AddAlloc("a1", "n1")
	s.AddAlloc("a2", "n1")
	operator := claim("a1", "n1", true)
	operator.SecretID = ""
	endpointstest.Rejected(s, structs.KindDenied, structs.CSIVolumeClaim, operator)
	if got := endpointstest.Must(s, structs.CSIVolumeClaim, claim("a1", "n1", false)).Claims[0]; got.Guarded {
		t.Error("a claim is guarded of which its node does not say so")
	}
	if got := endpointstest.Must(s, structs.CSIVolumeClaim, claim("a2", "n1", true)).Claims[0]; !got.Guarded {
		t.Error("the claim is not guarded")
	}
	if got := endpointstest.Must(s, structs.CSIVolumeClaim, claim("a1", "n1", true)).Claims[0]; !got.Guarded {
		t.Error("a claim that was made before is not guarded")
	}

	v.OnNodeLoss = structs.LossHold
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
	s.AddAlloc("a3", "n1")
	if got := endpointstest.Must(s, structs.CSIVolumeClaim, claim("a3", "n1", true)).Claims[0]; got.Guarded {
		t.Error("a claim is guarded although the volume holds")
	}
}

// TestClaimGet_HasTheTimeoutOfThePlugin: that of the node half, by the present settings.
func TestClaimGet_HasTheTimeoutOfThePlugin(t *testing.T) {
	s, get := newClaim(t)
	confirmAttach(s, "v", "n1")
	for _, want := range []time.Duration{0, time.Minute} {
		endpointstest.MustPropose(s, fsm.PluginConfigSet, &storage.PluginSettingsRequest{
			ID:          "pl",
			PluginCalls: storage.PluginCalls{NodeTimeout: want, ControllerTimeout: 3 * time.Minute},
		})
		got := endpointstest.Must(s, structs.CSIClaimGet, get)
		if !got.Ready || got.CallTimeout != want {
			t.Errorf("ready %v with a timeout of %s, want %s", got.Ready, got.CallTimeout, want)
		}
	}
}
