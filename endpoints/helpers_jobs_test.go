package endpoints

import (
	"time"

	"berth/structs"
)

func testJob(id string) *structs.Job {
	return &structs.Job{
		ID: id,
		TaskGroups: []*structs.TaskGroup{{
			Name:  "g",
			Count: 1,
			Volumes: map[string]*structs.VolumeRequest{
				"data": {
					Type:           "csi",
					Source:         "v",
					AccessMode:     structs.CSIMultiNodeMultipleWriter,
					AttachmentMode: structs.CSIFileSystem,
				},
			},
			Tasks: []*structs.Task{{Name: "t", Driver: "exec", Config: map[string]any{"command": "true"}}},
		}},
	}
}

// runsPlugin makes a group run the plugin of the volumes.
func runsPlugin(kind string) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		g.Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "pl", Type: kind}
	}
}

// filledService returns a service with all fields, for the fields of a job.
func filledService(name, task string, check *structs.ServiceCheck) *structs.Service {
	meta := func() map[string]string { return map[string]string{"k": "v"} }
	check.Interval = time.Second
	check.Timeout = time.Second
	check.CheckRestart = filledRestart()
	return &structs.Service{
		Name:         name,
		TaskName:     task,
		PortLabel:    "a",
		Provider:     structs.ServiceProviderBerth,
		Tags:         []string{"x"},
		CanaryTags:   []string{"y"},
		Meta:         meta(),
		CanaryMeta:   meta(),
		CheckRestart: filledRestart(),
		Checks:       []*structs.ServiceCheck{check},
	}
}

func filledRestart() *structs.CheckRestart {
	return &structs.CheckRestart{Limit: 1, Grace: new(time.Second)}
}

func httpCheck() *structs.ServiceCheck {
	return &structs.ServiceCheck{
		Type:   structs.CheckHTTP,
		Path:   "/",
		Header: map[string][]string{"X-A": {"v"}},
	}
}

func scriptCheck(task string) *structs.ServiceCheck {
	return &structs.ServiceCheck{
		Type:     structs.CheckScript,
		Command:  "/bin/true",
		Args:     []string{"x"},
		TaskName: task,
	}
}
