package csi_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/nodecalls"
)

// storageNode is a node whose controller knows only the volumes of its own node.
type storageNode struct {
	mu    sync.Mutex
	asked []*nodecalls.ClientCSIListRequest
	ids   []string
	err   error
}

func (h *storageNode) answer(_ string, req, resp any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, lists := req.(*nodecalls.ClientCSIListRequest)
	if !lists {
		return nil
	}
	h.asked = append(h.asked, r)
	if h.err != nil {
		return h.err
	}
	begin, _ := strconv.Atoi(r.StartingToken)
	end := len(h.ids)
	if r.MaxEntries > 0 {
		end = min(end, begin+int(r.MaxEntries))
	}
	page := resp.(*nodecalls.ClientCSIListResponse)
	for _, id := range h.ids[begin:end] {
		page.Volumes = append(page.Volumes, &structs.CSIVolumeExternalStub{ExternalID: id})
	}
	if end < len(h.ids) {
		page.NextToken = strconv.Itoa(end)
	}
	return nil
}

func addStorageNode(s *endpointstest.Server, node, zone string, ids ...string) *storageNode {
	h := &storageNode{ids: ids}
	s.AddNode(node, zone).Answer = h.answer
	return h
}

func TestExternalVolumes_AreThoseOfEveryPlace(t *testing.T) {
	s := endpointstest.New(t)
	addStorageNode(s, "n1", "a", "a1", "a2")
	addStorageNode(s, "n2", "b", "b1", "a2")
	twin := addStorageNode(s, "n3", "b", "b1", "a2") // reaches the same storage as n2
	got := endpointstest.Must(s, structs.CSIVolumeExternal, &structs.CSIVolumeExternalRequest{PluginID: "pl"})
	if ids := externalIDs(got); ids != "a1 a2 b1" || got.NextToken != "" || len(got.Warnings) != 0 {
		t.Errorf("got %q, %+v", ids, got)
	}
	if len(twin.asked) != 0 {
		t.Error("two controllers of one place were called")
	}
}

func TestExternalVolumes_ComeInPagesOverEveryPlace(t *testing.T) {
	s := endpointstest.New(t)
	var want []string
	for i := range 4 {
		var ids []string
		for j := range i * 2 { // the first place has none
			ids = append(ids, fmt.Sprintf("v%d-%d", i, j))
		}
		addStorageNode(s, fmt.Sprint("n", i), fmt.Sprint("zone", i), ids...)
		want = append(want, ids...)
	}
	for _, size := range []int32{1, 3, 5, 100} {
		req := &structs.CSIVolumeExternalRequest{PluginID: "pl", QueryOptions: structs.QueryOptions{PerPage: size}}
		var got []string
		for page := 0; page < 50; page++ {
			resp := endpointstest.Must(s, structs.CSIVolumeExternal, req)
			if len(resp.Volumes) > int(size) {
				t.Errorf("%d volumes on a page of %d", len(resp.Volumes), size)
			}
			got = append(got, strings.Fields(externalIDs(resp))...)
			req.NextToken = resp.NextToken
			if req.NextToken == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %q, want %q", size, got, want)
		}
	}
	endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeExternal, &structs.CSIVolumeExternalRequest{
		PluginID:     "pl",
		QueryOptions: structs.QueryOptions{NextToken: "!"},
	})
}

func TestExternalVolumes_ArePagedByTheirBytes(t *testing.T) {
	s := endpointstest.New(t)
	node := s.AddNode("n1", "a")
	asked := 0
	node.Answer = func(_ string, req, resp any) error {
		asked++
		page := resp.(*nodecalls.ClientCSIListResponse)
		page.NextToken = strconv.Itoa(asked)
		for i := range 1000 {
			v := &structs.CSIVolumeExternalStub{ExternalID: fmt.Sprintf("v%d-%d", asked, i)}
			v.VolumeContext = map[string]string{"k": strings.Repeat("x", structs.MaxCSIContext-1)}
			page.Volumes = append(page.Volumes, v)
		}
		return nil
	}
	got := endpointstest.Must(s, structs.CSIVolumeExternal, &structs.CSIVolumeExternalRequest{PluginID: "pl"})
	if asked != 5 || got.NextToken == "" { // 1000 of 16 KiB each are 15.6 MiB
		t.Errorf("%d calls returned %d volumes", asked, len(got.Volumes))
	}
}

// TestExternalVolumes_ArePagedByTheirCalls has a plugin that answers with empty pages.
func TestExternalVolumes_ArePagedByTheirCalls(t *testing.T) {
	s := endpointstest.New(t)
	asked := 0
	s.AddNode("n1", "a").Answer = func(_ string, req, resp any) error {
		asked++
		if asked < 2*structs.MaxExternalAsk {
			resp.(*nodecalls.ClientCSIListResponse).NextToken = strconv.Itoa(asked)
		}
		return nil
	}
	got := endpointstest.Must(s, structs.CSIVolumeExternal, &structs.CSIVolumeExternalRequest{PluginID: "pl"})
	if asked != structs.MaxExternalAsk || got.NextToken == "" {
		t.Errorf("%d calls, next token %q, want %d and a token", asked, got.NextToken, structs.MaxExternalAsk)
	}
}

func TestExternalVolumes_RejectAnAnswerWithoutBounds(t *testing.T) {
	listed := func(v structs.CSIVolumeExternalStub) nodecalls.ClientCSIListResponse {
		return nodecalls.ClientCSIListResponse{Volumes: []*structs.CSIVolumeExternalStub{&v}}
	}
	long := map[string]string{"k": strings.Repeat("x", structs.MaxCSIContext)}
	longNode := []string{strings.Repeat("x", structs.MaxCSINodeID+1)}
	for name, page := range map[string]nodecalls.ClientCSIListResponse{
		"id":      listed(structs.CSIVolumeExternalStub{ExternalID: strings.Repeat("x", structs.MaxCSIID+1)}),
		"source":  listed(structs.CSIVolumeExternalStub{CloneID: strings.Repeat("x", structs.MaxCSIID+1)}),
		"status":  listed(structs.CSIVolumeExternalStub{Status: strings.Repeat("x", structs.MaxErrorText+1)}),
		"context": listed(structs.CSIVolumeExternalStub{VolumeContext: long}),
		"node":    listed(structs.CSIVolumeExternalStub{PublishedExternalNodeIDs: longNode}),
		"token":   {NextToken: strings.Repeat("x", structs.MaxCSIToken+1)},
		"number":  {Volumes: make([]*structs.CSIVolumeExternalStub, structs.MaxCSIListed+1)},
	} {
		t.Run(name, func(t *testing.T) {
			s := endpointstest.New(t)
			addStorageNode(s, "n1", "a", "a1")
			s.AddNode("n2", "b").Answer = func(_ string, _, resp any) error {
				*resp.(*nodecalls.ClientCSIListResponse) = page
				return nil
			}
			got := endpointstest.Must(s, structs.CSIVolumeExternal, &structs.CSIVolumeExternalRequest{PluginID: "pl"})
			if externalIDs(got) != "a1" || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "at most") {
				t.Errorf("got %d volumes, warnings %q", len(got.Volumes), got.Warnings)
			}
		})
	}
}

func TestExternalVolumes_WarnOfMissingPlaces(t *testing.T) {
	s := endpointstest.New(t)
	addStorageNode(s, "n1", "a", "a1")
	broken := addStorageNode(s, "n2", "b", "b1")
	broken.err = structs.Errorf(structs.KindInternal, "disk failed")
	addStorageNode(s, "n3", "c", "c1")
	endpointstest.Must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   "n3",
		SecretID: endpointstest.SecretOf("n3"),
		Upserts: []*structs.CSIPluginInstance{
			{
				Kind:    structs.CSIKindController,
				NodeID:  "n3",
				CSIInfo: structs.CSIInfo{PluginID: "pl"},
			}},
	})
	got := endpointstest.Must(s, structs.CSIVolumeExternal, &structs.CSIVolumeExternalRequest{PluginID: "pl"})
	warnings := strings.Join(got.Warnings, "\n")
	if externalIDs(got) != "a1" || len(got.Warnings) != 2 {
		t.Errorf("got %+v", got)
	}
	for _, part := range []string{"the volumes in zone=b (controller on node n2) are not listed: disk failed",
		"the volumes in zone=c (controller on node n3)"} {
		if !strings.Contains(warnings, part) {
			t.Errorf("warnings %q, want %q", warnings, part)
		}
	}
	// If no place answers, the result is an error, not a list of warnings.
	endpointstest.Must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Full:     true,
	})
	endpointstest.Must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   "n3",
		SecretID: endpointstest.SecretOf("n3"),
		Full:     true,
	})
	endpointstest.Rejected(s, structs.KindInternal, structs.CSIVolumeExternal,
		&structs.CSIVolumeExternalRequest{PluginID: "pl"})
}

// recordsOf returns what an answer says of the rows of listed volumes.
func recordsOf(resp *structs.CSIVolumeExternalResponse) string {
	var all []string
	for _, v := range resp.Volumes {
		all = append(all, v.ExternalID+"="+v.Record)
	}
	return strings.Join(all, " ")
}

// TestExternalVolumes_NameStrays has a volume of each of two namespaces, and one that no row has.
func TestExternalVolumes_NameStrays(t *testing.T) {
	s := endpointstest.New(t)
	node := addStorageNode(s, "n1", "a", "ext-v", "ext-other", "lost")
	s.AddVolume("v")
	otherVolume(s)
	req := &structs.CSIVolumeExternalRequest{PluginID: "pl"}
	want := "ext-v=recorded ext-other=recorded lost=stray"
	if got := recordsOf(endpointstest.Must(s, structs.CSIVolumeExternal, req)); got != want {
		t.Errorf("without access control: got %q, want %q", got, want)
	}

	stop := runLeader(s, func(v *structs.CSIVolume) *structs.CSIVolumeOutcome {
		got := recordsOf(endpointstest.Must(s, structs.CSIVolumeExternal, req))
		if got != "ext-v=recorded ext-other=recorded lost=unknown" {
			t.Errorf("while a volume is made: got %q", got)
		}
		made := created(v)
		made.ExternalID = "lost"
		return made
	})
	endpointstest.Must(s, structs.CSIVolumeCreate, endpointstest.RegisterRequest(endpointstest.Volume("new")))
	stop()
	node.ids = append(node.ids, "gone")
	want = "ext-v=recorded ext-other=recorded lost=recorded gone=stray"
	if got := recordsOf(endpointstest.Must(s, structs.CSIVolumeExternal, req)); got != want {
		t.Errorf("after the volume is made: got %q, want %q", got, want)
	}
}

// TestExternalVolumes_TellNothingOfHiddenRows: a caller gets the same answer about a volume without a row and
// about one whose row it may not read.
func TestExternalVolumes_TellNothingOfHiddenRows(t *testing.T) {
	const plugin = "plugin {\n  policy = \"read\"\n}\n"
	for rules, want := range map[string]string{
		`namespace "default" { policy = "read" }`: "ext-v=recorded ext-other=unknown lost=unknown",
		`namespace "other" { policy = "read" }
namespace "default" { capabilities = ["csi-list-volume"] }`: "ext-v=unknown ext-other=recorded lost=unknown",
		`namespace "*" { policy = "read" }`: "ext-v=recorded ext-other=recorded lost=stray",
		`namespace "*" { policy = "read" }
namespace "other" { policy = "deny" }`: "ext-v=recorded ext-other=unknown lost=unknown",
	} {
		s := endpointstest.New(t)
		addStorageNode(s, "n1", "a", "ext-v", "ext-other", "lost")
		s.AddVolume("v")
		otherVolume(s)
		req := &structs.CSIVolumeExternalRequest{PluginID: "pl"}
		req.AuthToken = guard(s, plugin+rules)
		if got := recordsOf(endpointstest.Must(s, structs.CSIVolumeExternal, req)); got != want {
			t.Errorf("got %q, want %q with:\n%s", got, want, rules)
		}
	}
}
