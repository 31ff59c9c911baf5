package structs

import (
	"slices"
	"testing"
)

func TestJobWarnings_NamePartsWithoutEffect(t *testing.T) {
	job := &Job{
		ID: "j",
		TaskGroups: []*TaskGroup{nil, {
			Name: "g",
			Volumes: map[string]*VolumeRequest{
				"a": {Source: "data"},
				"b": {Source: "${volume}"},
				"c": nil,
			},
			Networks: []*NetworkResource{{Mode: NetworkModeBridge, Hostname: "h"}},
			Tasks: []*Task{nil, {Name: "t", Driver: "raw_exec"},
				{Name: "u", Driver: "exec", Resources: &Resources{DiskMB: 64}}},
		}},
	}
	want := []string{
		`job "j": group "g": volume "b": source "${volume}" is used as it is, because nothing replaces ${...} in it`,
		`job "j": group "g": task "u": resources: disk 64 has no effect: ` +
			"the group's ephemeral_disk requests scratch space",
		`job "j": group "g": task "t": raw_exec shows it the files and the name of the node: ` +
			"dns and hostname of the network have no effect on it",
	}
	if got := job.Warnings(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	job.TaskGroups = job.TaskGroups[1:]
	job.TaskGroups[0].Tasks = job.TaskGroups[0].Tasks[1:]
	job.Canonicalize()
	if disk := job.TaskGroups[0].Tasks[1].Resources.DiskMB; disk != 0 {
		t.Errorf("the job keeps disk %d", disk)
	}
}
