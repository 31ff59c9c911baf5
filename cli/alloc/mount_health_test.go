package alloc_test

import (
	"slices"
	"strings"
	"testing"

	"berth/api"
	"berth/api/apitest"
	"berth/cli/alloc"
	"berth/cli/clitest"
	"berth/structs"
	"berth/structs/storage"
)

// TestOfAlloc_NamesWhatConcernsTheAllocation: its own mounts, the condition on its node, and that of the
// controllers. Unknown statuses make nothing abnormal.
func TestOfAlloc_NamesWhatConcernsTheAllocation(t *testing.T) {
	dead := func(alloc string) *storage.MountHealth {
		return &storage.MountHealth{
			AllocID: alloc, State: storage.MountDead, Reason: "no server", Since: 1, Healing: "it stops its tasks",
		}
	}
	abnormal := &storage.VolumeCondition{Abnormal: true, Message: "DEGRADED Slow"}
	onNode := "volume v on node n1, allocation a1: the mount is dead since 1970-01-01T00:00:00Z: no server; it stops its tasks"
	for name, c := range map[string]struct {
		answer storage.VolumeUsageResponse
		want   []string
	}{
		"healthy": {storage.VolumeUsageResponse{Usages: []*storage.VolumeUsage{{
			VolumeID: "v", NodeID: "n1",
			Mounts:    []*storage.MountHealth{{AllocID: "a1", State: storage.MountHealthy}, dead("a2"), dead("")},
			Condition: &storage.VolumeCondition{Message: "17 New"},
		}}}, nil},
		"a dead mount": {storage.VolumeUsageResponse{Usages: []*storage.VolumeUsage{{
			VolumeID: "v", NodeID: "n1", Mounts: []*storage.MountHealth{dead("a2"), dead("a1")},
		}}}, []string{onNode}},
		"abnormal on its node": {storage.VolumeUsageResponse{Usages: []*storage.VolumeUsage{
			{VolumeID: "v", NodeID: "n1", Condition: abnormal},
			{VolumeID: "v", NodeID: "n2", Condition: &storage.VolumeCondition{Abnormal: true, Message: "other"}},
		}}, []string{"volume v on node n1: the plugin reports it as abnormal: DEGRADED Slow"}},
		"abnormal to the controllers": {storage.VolumeUsageResponse{Health: []*storage.VolumeHealth{
			{VolumeID: "v", PluginID: "p", Since: 1, Condition: abnormal},
			{VolumeID: "v", PluginID: "p", Condition: &storage.VolumeCondition{Message: "17 New"}},
		}}, []string{"volume v: the controllers of plugin p report it as abnormal since 1970-01-01T00:00:00Z: DEGRADED Slow"}},
	} {
		t.Run(name, func(t *testing.T) {
			caller := &apitest.Caller{}
			apitest.Answer(caller, storage.UsageList, c.answer)
			addr := clitest.Serve(t, caller, clitest.NewAgent(t.TempDir()))
			client := api.NewClient(api.ClientConfig{Address: addr})
			a := &structs.Allocation{ID: "a1", NodeID: "n1", Namespace: "default"}
			got, err := alloc.PrintAllocHealth(t.Context(), client, "v", a)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %q, %v", got, err)
			}
			ill, err := alloc.PrintVolumeHealth(t.Context(), client, "v", nil)
			for _, line := range c.want {
				if err != nil || !strings.Contains(strings.Join(ill, "\n"), line) {
					t.Errorf("of the volume: %q, %v", ill, err)
				}
			}
		})
	}
}

// TestCondition_IsShort: an unknown status is shown without the word.
func TestCondition_IsShort(t *testing.T) {
	for want, c := range map[string]*storage.VolumeCondition{
		"":                   nil,
		"abnormal: DEGRADED": {Abnormal: true, Message: "DEGRADED"},
		"17 New":             {Message: "17\nNew"},
	} {
		if got := alloc.VolumeCondition(c); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
