package views

import (
	"fmt"
	"strings"
	"testing"

	"berth/structs/storage"
)

func TestUsageProblems_AreOfFullAndIllVolumes(t *testing.T) {
	all := &storage.VolumeUsageResponse{
		Usages: []*storage.VolumeUsage{
			{VolumeID: "well", Bytes: &storage.UsageAmount{Used: 1, Available: 9}},
			{VolumeID: "full", NodeID: "n1", Bytes: &storage.UsageAmount{Used: 97, Available: 3}},
			{VolumeID: "dead", NodeID: "n1", Mounts: []*storage.MountHealth{
				{State: storage.MountHealthy}, {State: storage.MountDead, Reason: "the server is gone"},
			}},
			{
				VolumeID: "worn", NodeID: "n1",
				Condition: &storage.VolumeCondition{Abnormal: true, Message: "a disk"},
			},
		},
		Health: []*storage.VolumeHealth{
			{VolumeID: "worn", Condition: &storage.VolumeCondition{Abnormal: true, Message: "a replica"}},
			{VolumeID: "well", Condition: &storage.VolumeCondition{}},
		},
	}
	problems, more := UsageProblems(all, 20)
	var got []string
	for _, p := range problems {
		got = append(got, p.Name+": "+strings.Join(p.Reasons, "; "))
	}
	want := []string{
		"dead: a mount is dead on node n1: the server is gone",
		"full: 97 B of 100 B are in use (97 %) on node n1",
		"worn: the plugin reports it as abnormal on node n1: a disk; its plugin reports it as abnormal: a replica",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || more {
		t.Errorf("got %s (%t)", strings.Join(got, "\n"), more)
	}
	problems, more = UsageProblems(all, 2)
	if len(problems) != 2 || !more {
		t.Errorf("got %d of at most 2 (%t)", len(problems), more)
	}
}
