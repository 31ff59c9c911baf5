package ui

import (
	"net/http"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/storage"
)

// twoClaims is a volume with a claim in use and one that waits.
func twoClaims() *structs.CSIVolumeDetail {
	v := &structs.CSIVolumeDetail{
		CSIVolume: structs.CSIVolume{
			ID: "data", Namespace: "default",
			CSIVolumeSpec:   structs.CSIVolumeSpec{PluginID: "disk", Labels: map[string]string{"tier": "gold"}},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
		},
		Claims: []*structs.CSIClaim{
			{AllocID: "aaaaaaaa-1", NodeID: "node-1", JobID: "db", State: structs.ClaimGranted, Mode: "write"},
			{AllocID: "bbbbbbbb-2", NodeID: "node-2", JobID: "db", State: structs.ClaimWaiting, Mode: "write",
				Reason: "allocation aaaaaaaa writes"},
		},
		Allocations: []*structs.AllocListStub{{
			ID: "aaaaaaaa-1", NodeName: "n1", ClientStatus: structs.AllocRunning,
			TaskStates: map[string]*structs.TaskState{"pg": {State: "running"}},
		}},
		ControllerRequired: true,
		Attachments:        []*structs.CSIAttachment{{NodeID: "node-1", State: structs.AttachmentAttached}},
	}
	return v
}

func TestVolume_IsAPicture(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, structs.CSIVolumeGet, structs.CSIVolumeGetResponse{Volume: twoClaims()})
	apitest.Answer(servers, structs.VolumeWhy, structs.WhyResponse{
		Waits:   true,
		Reasons: []*structs.Reason{{Text: "it is written by db", Remedy: "berth job stop db"}},
	})
	apitest.Answer(servers, storage.UsageList, storage.VolumeUsageResponse{
		Usages: []*storage.VolumeUsage{{
			NodeID: "node-1",
			Bytes:  &storage.UsageAmount{Used: 90, Available: 10},
			Mounts: []*storage.MountHealth{
				{State: storage.MountHealthy}, {AllocID: "aaaaaaaa-1", State: storage.MountHealthy},
			},
		}},
	})
	apitest.Answer(servers, storage.SnapshotList, storage.SnapshotListResponse{
		Snapshots: []*storage.VolumeSnapshot{{Name: "monday"}},
	})
	apitest.Answer(servers, structs.NodeGet, structs.NodeGetResponse{
		Node: &structs.NodeDetail{Node: structs.Node{Status: structs.NodeReady}},
	})

	resp, body := get(t, h, "/ui/volume?id=data")
	wants(t, body, "it is written by db", "berth job stop db", "berth volume why data",
		"1. <a href=\"/ui/allocation?id=aaaaaaaa-1\">", "running: pg running",
		"n1 is ready", "staged", "mounted", "90 %", `value="90"`, "monday",
		"allocation aaaaaaaa writes", "tier=gold")
	if n := strings.Count(body, `aria-current="step"`); resp.StatusCode != http.StatusOK || n != 1 {
		t.Errorf("%d with %d steps that wait, want one:\n%s", resp.StatusCode, n, body)
	}
}

// The picture is shown without the parts that cannot be read.
func TestVolume_NamesThePartsThatItCannotRead(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, structs.CSIVolumeGet, structs.CSIVolumeGetResponse{Volume: twoClaims()})
	apitest.Answer(servers, structs.VolumeWhy, structs.WhyResponse{})
	apitest.Fail(servers, storage.UsageList, structs.Deniedf("no usage"))
	apitest.Fail(servers, storage.SnapshotList, structs.Deniedf("no snapshots"))
	apitest.Fail(servers, structs.NodeGet, structs.Deniedf("no nodes"))
	resp, body := get(t, h, "/ui/volume?id=data")
	wants(t, body, "Not known: its use and its mounts: no usage", "its snapshots: no snapshots",
		"its nodes: no nodes", "because the tasks run")
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %d", resp.StatusCode)
	}
}

func TestVolume_SaysThatThereIsNone(t *testing.T) {
	h, servers := newPage(t)
	apitest.Fail(servers, structs.CSIVolumeGet, structs.NotFoundf("there is no volume none"))
	resp, body := get(t, h, "/ui/volume?id=none")
	wants(t, body, "there is no volume none", `role="alert"`)
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("got %d", resp.StatusCode)
	}
	resp, body = get(t, h, "/ui/volume")
	wants(t, body, "the address of the view has no ID")
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("got %d", resp.StatusCode)
	}
}
