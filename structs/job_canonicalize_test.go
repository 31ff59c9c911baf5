package structs

import (
	"fmt"
	"testing"
	"time"
)

// testJob is a valid service job with every block, made canonical.
func testJob(edits ...func(*Job)) *Job {
	j := &Job{
		ID: "db",
		TaskGroups: []*TaskGroup{{
			Name:  "g",
			Count: 1,
			Volumes: map[string]*VolumeRequest{
				"data": {
					Type:           "csi",
					Source:         "db",
					AccessMode:     CSISingleNodeWriter,
					AttachmentMode: CSIFileSystem,
				},
			},
			Tasks: []*Task{{
				Name:            "t",
				Driver:          "exec",
				VolumeMounts:    []*VolumeMount{{Volume: "data", Destination: "/data"}},
				CSIPluginConfig: &CSIPluginConfig{ID: "hostpath", Type: CSIPluginNode},
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
		{"restart", *g.RestartPolicy, RestartPolicy{2, 30 * time.Minute, 15 * time.Second, "fail"}},
		{"task restart", *task.RestartPolicy, *g.RestartPolicy},
		{"reschedule", *g.ReschedulePolicy, ReschedulePolicy{0, 0, 30 * time.Second, "exponential",
			time.Hour, true}},
		{"disk", *g.EphemeralDisk, EphemeralDisk{SizeMB: 300}},
		{"resources", fmt.Sprint(*task.Resources), fmt.Sprint(Resources{CPU: 100, MemoryMB: 300})},
		{"kill timeout", task.KillTimeout, 5 * time.Second},
		{"logs", *task.LogConfig, LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}},
		{"volume name", g.Volumes["data"].Name, "data"},
		{"propagation", task.VolumeMounts[0].PropagationMode, "private"},
		{"plugin", *task.CSIPluginConfig, CSIPluginConfig{"hostpath", "node", "/csi", "/local/csi",
			30 * time.Second, 0, ""}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestCanonicalize_IsIdempotent(t *testing.T) {
	for _, kind := range []string{JobService, JobBatch, JobSystem, JobSysBatch} {
		j := testJob(func(j *Job) { j.Type = kind })
		before := fmt.Sprintf("%+v %+v", *j, *j.TaskGroups[0])
		Canonicalize(j)
		if after := fmt.Sprintf("%+v %+v", *j, *j.TaskGroups[0]); after != before {
			t.Errorf("%s:\n%s\n%s", kind, before, after)
		}
	}
	Canonicalize(&Job{TaskGroups: []*TaskGroup{nil, {Tasks: []*Task{nil}}}}) // possible in JSON
}

func TestCanonicalize_DropsASystemJobsEmptyReschedulePolicy(t *testing.T) {
	j := testJob(func(j *Job) {
		j.Type = JobSystem
		j.TaskGroups[0].ReschedulePolicy = &ReschedulePolicy{}
	})
	if p := j.TaskGroups[0].ReschedulePolicy; p != nil {
		t.Errorf("got %+v", p)
	}
}

func TestCanonicalize_DropsAnEmptyLifecycle(t *testing.T) {
	j := testJob(lifecycle(TaskLifecycle{}))
	Canonicalize(j)
	if l := j.TaskGroups[0].Tasks[0].Lifecycle; l != nil {
		t.Errorf("got %+v", l)
	}
}

func group(edit func(*TaskGroup)) func(*Job) { return func(j *Job) { edit(j.TaskGroups[0]) } }
func task(edit func(*Task)) func(*Job)       { return func(j *Job) { edit(j.TaskGroups[0].Tasks[0]) } }

func lifecycle(l TaskLifecycle) func(*Job) {
	return task(func(t *Task) { t.Lifecycle = &l })
}
