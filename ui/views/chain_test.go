package views

import (
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/storage"
)

// facts returns a volume with one granted claim that is in use.
func facts() VolumeFacts {
	return VolumeFacts{
		Volume: &structs.CSIVolumeDetail{
			CSIVolume: structs.CSIVolume{
				ID:              "data",
				CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
			},
			ControllerRequired: true,
			Claims:             []*structs.CSIClaim{{AllocID: "a1", NodeID: "n1", State: structs.ClaimGranted}},
			Attachments:        []*structs.CSIAttachment{{NodeID: "n1", State: structs.AttachmentAttached}},
			Allocations:        []*structs.AllocListStub{{ID: "a1", ClientStatus: structs.AllocRunning}},
		},
		Usage: &storage.VolumeUsageResponse{Usages: []*storage.VolumeUsage{{
			NodeID: "n1",
			Mounts: []*storage.MountHealth{
				{State: storage.MountHealthy},
				{AllocID: "a1", State: storage.MountHealthy},
			},
		}}},
		Nodes: map[string]string{"n1": structs.NodeReady},
	}
}

// states returns the states of the steps of the first chain.
func states(p *Picture) string {
	var all []string
	for _, s := range p.Chains[0].Steps {
		all = append(all, string(s.State))
	}
	return strings.Join(all, " ")
}

func TestPicture_MarksTheStepThatWaits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*VolumeFacts)
		want   string
	}{
		"all done": {func(*VolumeFacts) {}, "done done done done done done"},
		"the claim is in the queue": {func(f *VolumeFacts) {
			f.Volume.Claims[0].State = structs.ClaimWaiting
			f.Volume.Attachments = nil
			f.Usage = nil
			f.Volume.Allocations[0].ClientStatus = structs.AllocPending
		}, "waits later done later later later"},
		"it is being attached": {func(f *VolumeFacts) {
			f.Volume.Attachments[0].State = structs.AttachmentAttaching
			f.Usage.Usages[0].Mounts = nil
			f.Volume.Allocations[0].ClientStatus = structs.AllocPending
		}, "done waits done later later later"},
		"the node is down": {func(f *VolumeFacts) {
			f.Nodes["n1"] = structs.NodeDown
		}, "done done waits done done done"},
		"it is being staged": {func(f *VolumeFacts) {
			f.Usage.Usages[0].Mounts = nil
			f.Volume.Allocations[0].ClientStatus = structs.AllocPending
		}, "done done done waits later later"},
		"the node has looked before the mount for the allocation": {func(f *VolumeFacts) {
			f.Usage.Usages[0].Mounts = f.Usage.Usages[0].Mounts[:1]
		}, "done done done done done done"},
		"a mount is dead": {func(f *VolumeFacts) {
			f.Usage.Usages[0].Mounts[1].State = storage.MountDead
		}, "done done done done waits done"},
		"the plugin neither attaches nor stages": {func(f *VolumeFacts) {
			f.Volume.ControllerRequired = false
			f.Volume.Attachments = nil
			f.Usage.Usages[0].Mounts = f.Usage.Usages[0].Mounts[1:]
		}, "done skipped done skipped done done"},
		"the plugin has a controller that does not attach": {func(f *VolumeFacts) {
			f.Volume.Attachments = nil
		}, "done skipped done done done done"},
		"the node has not told": {func(f *VolumeFacts) {
			f.Usage = nil
		}, "done done done done done done"},
		"the allocation has ended": {func(f *VolumeFacts) {
			f.Volume.Claims[0].EndTime = 1
			f.Volume.Claims[0].ReleaseError = &structs.OperationError{Message: "busy"}
			f.Volume.Allocations[0].ClientStatus = structs.AllocComplete
		}, "done done done done waits done"},
		"the allocation was lost with its node": {func(f *VolumeFacts) {
			f.Volume.Claims[0].EndTime = 1
			f.Usage = nil
			f.Nodes["n1"] = structs.NodeDown
			f.Volume.Allocations[0].ClientStatus = structs.AllocLost
		}, "done done unknown unknown waits done"},
	} {
		f := facts()
		c.change(&f)
		if got := states(NewPicture(f)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestPicture_SaysThatADownNodeReleasesNothing(t *testing.T) {
	f := facts()
	f.Volume.Claims[0].EndTime = 1
	for status, want := range map[string]string{
		structs.NodeReady: "; the node has not released it yet",
		structs.NodeDown:  "; node n1 is down and has not released it",
	} {
		f.Nodes["n1"] = status
		if got := NewPicture(f).Chains[0].Steps[4].Text; !strings.HasSuffix(got, want) {
			t.Errorf("a mount on a node that is %s: got %q, want the end %q", status, got, want)
		}
	}
}

func TestPicture_SaysWhatTheNodeSays(t *testing.T) {
	f := facts()
	f.Usage.Usages[0].Mounts[1] = &storage.MountHealth{
		AllocID: "a1", State: storage.MountHung, Reason: "it does not answer", Healing: "it is mounted again",
	}
	f.Usage.Usages[0].Condition = &storage.VolumeCondition{Abnormal: true, Message: "a disk is worn"}
	f.Usage.Health = []*storage.VolumeHealth{{
		Condition: &storage.VolumeCondition{Abnormal: true, Message: "a replica is lost"},
	}}
	p := NewPicture(f)
	mount := p.Chains[0].Steps[4].Text
	for _, text := range []string{"it does not answer", "it is mounted again"} {
		if !strings.Contains(mount, text) {
			t.Errorf("the mount is %q", mount)
		}
	}
	findings := strings.Join(p.Problems, "\n")
	for _, text := range []string{"a disk is worn", "a replica is lost"} {
		if !strings.Contains(findings, text) {
			t.Errorf("the findings are %q", findings)
		}
	}
}

func TestPicture_ShowsAttachmentsWithoutAClaim(t *testing.T) {
	f := facts()
	f.Volume.Attachments = append(f.Volume.Attachments, &structs.CSIAttachment{
		NodeID:    "n2",
		State:     "detaching",
		LastError: &structs.OperationError{Message: "the controller is gone"},
	})
	p := NewPicture(f)
	if len(p.Detaching) != 1 || !strings.Contains(p.Detaching[0].Text, "the controller is gone") {
		t.Errorf("got %+v", p.Detaching)
	}
}

func TestPicture_ShowsJobsWithoutAnAllocation(t *testing.T) {
	f := facts()
	f.Volume.WaitingJobs = []string{"web"}
	p := NewPicture(f)
	if len(p.Placing) != 1 || p.Placing[0].State != Waits || p.Placing[0].Link != "/ui/job?id=web" {
		t.Errorf("got %+v", p.Placing)
	}
}

func TestUsage_HasToneAndWords(t *testing.T) {
	for _, c := range []struct {
		used, free int64
		percent    int
		tone       Tone
	}{{1, 9, 10, Good}, {85, 15, 85, Busy}, {95, 5, 95, Bad}, {5, 0, 100, Bad}} {
		got := usage(&storage.VolumeUsage{Bytes: &storage.UsageAmount{Used: c.used, Available: c.free}})
		if got.Percent != c.percent || got.Tone != c.tone {
			t.Errorf("%d of %d: got %+v", c.used, c.used+c.free, got)
		}
	}
	if got := usage(&storage.VolumeUsage{Error: "no answer"}); got.Text != "no answer" || got.Percent != 0 {
		t.Errorf("got %+v", got)
	}
}
