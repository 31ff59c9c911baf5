package views

import (
	"os"
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/storage"
)

// written shows the cells of a row with their tones and links.
func written(r Row) string {
	var lines []string
	for _, c := range r.Cells {
		lines = append(lines, strings.TrimRight(strings.Join([]string{c.Text, string(c.Tone), c.Link}, ";"), ";"))
	}
	return r.Key + ": " + strings.Join(lines, "|")
}

// anHourAgo is a time whose age is stable while a test runs.
func anHourAgo() int64 { return time.Now().Add(-time.Hour - 30*time.Second).UnixNano() }

func TestRows_HaveTextsTonesAndLinks(t *testing.T) {
	at := anHourAgo()
	b, err := os.ReadFile("testdata/rows.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(b), "\n")
	for i, row := range []Row{
		VolumeRow(&structs.CSIVolumeListStub{
			ID: "data", Namespace: "prod", PluginID: "ebs", State: structs.VolumeReady, Drift: "size", CreateTime: at,
		}),
		VolumeRow(&structs.CSIVolumeListStub{
			ID: "old", Namespace: "prod", PluginID: "ebs", Class: "fast", State: structs.VolumeReady, DeleteAt: at,
			Schedulable: true, AccessMode: "single-node-writer", CurrentReaders: 1, CurrentWriters: 2, Waiting: 3,
		}),
		AllocRow(&structs.AllocListStub{
			ID: "0123456789abcdef", Namespace: "prod", JobID: "web", TaskGroup: "g", NodeID: "fedcba9876543210",
			DesiredStatus: "run", ClientStatus: structs.AllocFailed, CreateTime: at, ModifyTime: at,
			TaskStates: map[string]*structs.TaskState{"t": {Restarts: 2}},
		}),
		AllocRow(&structs.AllocListStub{
			ID: "0123456789abcdef", NodeID: "fedcba9876543210", NodeName: "n1", ClientStatus: structs.AllocRunning,
		}),
		JobRow(&structs.JobListStub{
			ID: "web", Namespace: "prod", Type: "service", Priority: 50, Status: structs.JobRunning, Stop: true,
			SubmitTime: at, Periodic: true, JobSummary: &structs.JobSummary{
				Summary: map[string]structs.TaskGroupSummary{
					"g": {Running: 1, Starting: 2, Queued: 3, Failed: 4, Lost: 5},
				},
			},
		}),
		JobRow(&structs.JobListStub{ID: "web", ParameterizedJob: true, Status: structs.JobDead}),
		NodeRow(&structs.NodeListStub{
			ID: "fedcba9876543210", Name: "n1", Datacenter: "dc1", NodePool: "default", NodeClass: "big",
			Address: "10.0.0.1", Status: structs.NodeReady, SchedulingEligibility: structs.NodeEligible, Version: "1",
		}),
		NodeRow(&structs.NodeListStub{
			ID: "fedcba9876543210", Status: structs.NodeReady, Returning: true, SchedulingEligibility: "ineligible",
			Drain: true,
		}),
		PluginRow(&structs.CSIPluginListStub{ID: "ebs", Provider: "p", NodesHealthy: 1, NodesExpected: 2}),
		PluginRow(&structs.CSIPluginListStub{
			ID: "ebs", ControllerRequired: true, ControllersHealthy: 1, ControllersExpected: 1,
		}),
		DeploymentTable([]*structs.Deployment{{
			ID: "0123456789abcdef", JobVersion: 2, Status: structs.DeploymentRunning, StatusDescription: "runs",
			ModifyTime: at, TaskGroups: map[string]*structs.DeploymentState{"g": {HealthyAllocs: 1, DesiredTotal: 2}},
		}}).Rows[0],
		GroupTable(&structs.JobSummary{Summary: map[string]structs.TaskGroupSummary{
			"g": {Queued: 1, Starting: 2, Running: 3, Complete: 4, Failed: 5, Lost: 6, Unknown: 7},
		}}).Rows[0],
		snapshotTable([]*storage.VolumeSnapshot{{Name: "s", SizeBytes: 1 << 30}}).Rows[0],
		ClaimTable([]*structs.VolumeClaimStub{{
			ID: "c", Namespace: "prod", VolumeID: "data", Mode: "write", State: structs.ClaimWaiting, Position: 2,
			Since: at,
		}}).Rows[0],
	} {
		if got := written(row); got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
	}
}
