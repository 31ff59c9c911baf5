package defaults

import (
	"berth/structs"
	"fmt"
	"testing"
	"time"
)

// testJob is a valid service job with every block, made canonical.
func testJob(edits ...func(*structs.Job)) *structs.Job {
	j := &structs.Job{
		ID: "db",
		TaskGroups: []*structs.TaskGroup{{
			Name:  "g",
			Count: 1,
			Volumes: map[string]*structs.VolumeRequest{
				"data": {
					Type:           "csi",
					Source:         "db",
					AccessMode:     structs.CSISingleNodeWriter,
					AttachmentMode: structs.CSIFileSystem,
				},
			},
			Tasks: []*structs.Task{{
				Name:            "t",
				Driver:          "exec",
				VolumeMounts:    []*structs.VolumeMount{{Volume: "data", Destination: "/data"}},
				CSIPluginConfig: &structs.CSIPluginConfig{ID: "hostpath", Type: structs.CSIPluginNode},
			}},
		}},
	}
	for _, edit := range edits {
		edit(j)
	}
	Canonicalize(j)
	return j
}

func TestCanonicalize_FillsDefaults(t *testing.T) {
	j := testJob()
	g := j.TaskGroups[0]
	task := j.TaskGroups[0].Tasks[0]
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"namespace", j.Namespace, "default"},
		{"region", j.Region, "global"},
		{"name", j.Name, "db"},
		{"type", j.Type, "service"},
		{"priority", j.Priority, 50},
		{"node pool", j.NodePool, "default"},
		{"datacenters", fmt.Sprint(j.Datacenters), "[*]"},
		{"restart", *g.RestartPolicy, structs.RestartPolicy{
			Attempts: 2,
			Interval: 30 * time.Minute,
			Delay:    15 * time.Second,
			Mode:     "fail",
		}},
		{"task restart", *task.RestartPolicy, *g.RestartPolicy},
		{"reschedule", *g.ReschedulePolicy, structs.ReschedulePolicy{
			Delay:         30 * time.Second,
			DelayFunction: "exponential",
			MaxDelay:      time.Hour,
			Unlimited:     true,
		}},
		{"disk", *g.EphemeralDisk, structs.EphemeralDisk{SizeMB: 300}},
		{"resources", fmt.Sprint(*task.Resources), fmt.Sprint(structs.Resources{CPU: 100, MemoryMB: 300})},
		{"kill timeout", task.KillTimeout, 5 * time.Second},
		{"logs", *task.LogConfig, structs.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}},
		{"volume name", g.Volumes["data"].Name, "data"},
		{"propagation", task.VolumeMounts[0].PropagationMode, "private"},
		{"plugin", fmt.Sprint(*task.CSIPluginConfig), fmt.Sprint(structs.CSIPluginConfig{
			ID:                  "hostpath",
			Type:                "node",
			MountDir:            "/csi",
			StagePublishBaseDir: "/local/csi",
			HealthTimeout:       30 * time.Second,
		})},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
}

// TestCanonicalize_PutsTokensWhereDriversLook leaves a job alone that asks for another place.
func TestCanonicalize_PutsTokensWhereDriversLook(t *testing.T) {
	for place, want := range map[string]string{"": structs.TokensInContext, "secrets": "secrets"} {
		j := testJob(func(*structs.Job) {})
		plugin := &structs.CSIPluginConfig{
			Tokens:   []*structs.CSIToken{nil, {Audience: "a"}, {Audience: "b", TTL: time.Minute}},
			TokensIn: place,
		}
		j.TaskGroups[0].Tasks[0].CSIPluginConfig = plugin
		Canonicalize(j)
		if plugin.TokensIn != want || plugin.Tokens[1].TTL != time.Hour || plugin.Tokens[2].TTL != time.Minute {
			t.Errorf("%q: got %+v, %+v, %+v", place, plugin, plugin.Tokens[1], plugin.Tokens[2])
		}
	}
}

func TestCanonicalize_IsIdempotent(t *testing.T) {
	for _, kind := range []string{structs.JobService, structs.JobBatch, structs.JobSystem, structs.JobSysBatch} {
		j := testJob(func(j *structs.Job) { j.Type = kind })
		before := fmt.Sprintf("%+v %+v", *j, *j.TaskGroups[0])
		Canonicalize(j)
		if after := fmt.Sprintf("%+v %+v", *j, *j.TaskGroups[0]); after != before {
			t.Errorf("%s:\n%s\n%s", kind, before, after)
		}
	}
	groups := []*structs.TaskGroup{nil, {Tasks: []*structs.Task{nil}}} // possible in JSON
	Canonicalize(&structs.Job{TaskGroups: groups})
}

func TestCanonicalize_DropsASystemJobsEmptyReschedulePolicy(t *testing.T) {
	j := testJob(func(j *structs.Job) {
		j.Type = structs.JobSystem
		j.TaskGroups[0].ReschedulePolicy = &structs.ReschedulePolicy{}
	})
	if p := j.TaskGroups[0].ReschedulePolicy; p != nil {
		t.Errorf("got %+v", p)
	}
}

func TestCanonicalize_DropsAnEmptyLifecycle(t *testing.T) {
	j := testJob(lifecycle(structs.TaskLifecycle{}))
	Canonicalize(j)
	if l := j.TaskGroups[0].Tasks[0].Lifecycle; l != nil {
		t.Errorf("got %+v", l)
	}
}

func group(edit func(*structs.TaskGroup)) func(*structs.Job) {
	return func(j *structs.Job) { edit(j.TaskGroups[0]) }
}
func task(edit func(*structs.Task)) func(*structs.Job) {
	return func(j *structs.Job) { edit(j.TaskGroups[0].Tasks[0]) }
}

func lifecycle(l structs.TaskLifecycle) func(*structs.Job) {
	return task(func(t *structs.Task) { t.Lifecycle = &l })
}
