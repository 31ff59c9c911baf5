package endpointstest

import (
	"time"

	"berth/structs"
)

// Job returns a job of one group, which uses the volume v.
func Job(id string) *structs.Job {
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

// RunsPlugin makes a group run the plugin of the volumes.
func RunsPlugin(kind string) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		g.Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "pl", Type: kind}
	}
}

// FilledService returns a service with all fields, for the fields of a job.
func FilledService(name, task string, check *structs.ServiceCheck) *structs.Service {
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

// HTTPCheck returns a check with a path and a header.
func HTTPCheck() *structs.ServiceCheck {
	return &structs.ServiceCheck{
		Type:   structs.CheckHTTP,
		Path:   "/",
		Header: map[string][]string{"X-A": {"v"}},
	}
}

// ScriptCheck returns a check that runs a program in a task.
func ScriptCheck(task string) *structs.ServiceCheck {
	return &structs.ServiceCheck{
		Type:     structs.CheckScript,
		Command:  "/bin/true",
		Args:     []string{"x"},
		TaskName: task,
	}
}
