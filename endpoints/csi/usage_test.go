package csi_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/structs"
	"berth/structs/storage"
)

// answer makes a node tell a use of each volume that it is asked for, and of one that nobody asked for.
func answerUsage(n *endpointstest.FakeNode, used int64) {
	n.Answer = func(method string, req, resp any) error {
		if method != storage.NodeUsage.Name {
			return structs.Internalf("%s is not expected", method)
		}
		asked := req.(*storage.NodeUsageRequest).Volumes
		out := resp.(*storage.NodeUsageResponse)
		for _, k := range append(slices.Clone(asked), storage.UsageKey{Namespace: "x", VolumeID: "foreign"}) {
			out.Usages = append(out.Usages, &storage.VolumeUsage{
				Namespace: k.Namespace,
				VolumeID:  k.VolumeID,
				NodeID:    "a lie",
				Bytes:     &storage.UsageAmount{Used: used},
			})
		}
		out.Usages = append(out.Usages, nil)
		return nil
	}
}

// claimed makes a server with two nodes: v1 is claimed on both, v2 on the second. The claim on v3 waits.
func claimed(t *testing.T) (s *endpointstest.Server, first, second *endpointstest.FakeNode) {
	s = endpointstest.New(t)
	first = s.AddNode("n1", "a")
	second = s.AddNode("n2", "a")
	s.AddAlloc("a1", "n1")
	s.AddAlloc("a2", "n2")
	for _, id := range []string{"v1", "v2"} {
		s.AddVolume(id)
	}
	s.Claim("v1", "a1", "n1")
	s.Claim("v2", "a2", "n2")
	return s, first, second
}

func list(s *endpointstest.Server, req *storage.VolumeUsageRequest) (text string, warnings []string) {
	resp := endpointstest.Must(s, storage.UsageList, req)
	var parts []string
	for _, u := range resp.Usages {
		parts = append(parts, fmt.Sprintf("%s on %s: %d", u.VolumeID, u.NodeID, u.Bytes.Used))
	}
	return strings.Join(parts, ", "), resp.Warnings
}

func TestList_AsksTheNodesThatHaveTheVolumes(t *testing.T) {
	s, first, second := claimed(t)
	answerUsage(first, 1)
	answerUsage(second, 2)
	before := s.Raft.Len()
	for id, want := range map[string]string{
		"":     "v1 on n1: 1, v2 on n2: 2",
		"v1":   "v1 on n1: 1",
		"v2":   "v2 on n2: 2",
		"none": "",
	} {
		got, warnings := list(s, &storage.VolumeUsageRequest{VolumeID: id})
		if got != want || len(warnings) > 0 {
			t.Errorf("%q: got %q, warnings %q", id, got, warnings)
		}
	}
	other := &storage.VolumeUsageRequest{QueryOptions: structs.QueryOptions{Namespace: "other"}}
	if got, _ := list(s, other); got != "" {
		t.Errorf("another namespace: %q", got)
	}
	if n := s.Raft.Len(); n != before {
		t.Errorf("%d entries were written", n-before)
	}
}

func TestList_WarnsOfANodeThatDoesNotAnswer(t *testing.T) {
	s, first, second := claimed(t)
	answerUsage(first, 1)
	var calls atomic.Int32
	second.Answer = func(string, any, any) error {
		calls.Add(1)
		return structs.Unavailablef("it hangs")
	}
	got, warnings := list(s, &storage.VolumeUsageRequest{})
	if got != "v1 on n1: 1" || len(warnings) != 1 || !strings.Contains(warnings[0], "it hangs") || calls.Load() != 1 {
		t.Errorf("got %q, warnings %q after %d calls", got, warnings, calls.Load())
	}
}

// TestList_HasWhatControllersReport: also of a volume that no node has, and only of what the caller asks for.
func TestList_HasWhatControllersReport(t *testing.T) {
	s, _, _ := claimed(t)
	s.AddVolume("free")
	var rows []*storage.VolumeHealth
	for _, id := range []string{"free", "v1"} {
		v := s.GetVolume(id)
		rows = append(rows, &storage.VolumeHealth{
			Namespace: v.Namespace, VolumeID: id, PluginID: v.PluginID, ExternalID: v.ExternalID,
			Condition: &storage.VolumeCondition{Abnormal: true, Message: "DATA_LOSS Lost"},
		})
	}
	endpointstest.MustPropose(s, fsm.HealthRecord, &storage.HealthRecordRequest{
		PluginID: rows[0].PluginID, Found: rows,
	})
	for _, c := range []struct {
		ns, id string
		want   []string
	}{
		{"default", "", []string{"free", "v1"}},
		{"*", "", []string{"free", "v1"}},
		{"default", "free", []string{"free"}},
		{"default", "v2", nil},
		{"other", "", nil},
	} {
		req := &storage.VolumeUsageRequest{VolumeID: c.id, QueryOptions: structs.QueryOptions{Namespace: c.ns}}
		var got []string
		for _, h := range endpointstest.Must(s, storage.UsageList, req).Health {
			got = append(got, h.VolumeID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

// TestList_BoundsWhatANodeSays has a node that tells more of a health than a plugin may have.
func TestList_BoundsWhatANodeSays(t *testing.T) {
	s, first, _ := claimed(t)
	long := strings.Repeat("x", 2*structs.MaxText)
	first.Answer = func(_ string, req, resp any) error {
		statuses := []*structs.CSIHealth{nil}
		for range structs.MaxCSIHealth + 1 {
			statuses = append(statuses, &structs.CSIHealth{Status: long, Reason: long, Message: long})
		}
		for _, k := range req.(*storage.NodeUsageRequest).Volumes {
			out := resp.(*storage.NodeUsageResponse)
			out.Usages = append(out.Usages, &storage.VolumeUsage{
				Namespace: k.Namespace, VolumeID: k.VolumeID,
				Condition: &storage.VolumeCondition{Message: long, Statuses: statuses},
			})
		}
		return nil
	}
	req := &storage.VolumeUsageRequest{VolumeID: "v1"}
	c := endpointstest.Must(s, storage.UsageList, req).Usages[0].Condition
	last := c.Statuses[len(c.Statuses)-1]
	if len(c.Statuses) != structs.MaxCSIHealth || len(c.Message) > structs.MaxText+3 ||
		len(last.Message) > structs.MaxText+3 || len(last.Status) > structs.MaxName+3 {
		t.Errorf("%d statuses, texts of %d, %d and %d bytes", len(c.Statuses), len(c.Message), len(last.Message),
			len(last.Status))
	}
}
