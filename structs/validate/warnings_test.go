package validate

import (
	"slices"
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/defaults"
)

func TestJobWarnings_NamePartsWithoutEffect(t *testing.T) {
	job := &structs.Job{
		ID: "j",
		TaskGroups: []*structs.TaskGroup{nil, {
			Name: "g",
			Volumes: map[string]*structs.VolumeRequest{
				"a": {Source: "data"},
				"b": {Source: "${volume}"},
				"c": nil,
			},
			Networks: []*structs.NetworkResource{{Mode: structs.NetworkModeBridge, Hostname: "h"}},
			Tasks: []*structs.Task{nil, {Name: "t", Driver: "raw_exec"},
				{Name: "u", Driver: "exec", Resources: &structs.Resources{DiskMB: 64}}},
		}},
	}
	want := []string{
		`job "j": group "g": volume "b": source "${volume}" is used as it is, because nothing replaces ${...} in it`,
		`job "j": group "g": task "u": resources: disk 64 has no effect: ` +
			"the group's ephemeral_disk requests scratch space",
		`job "j": group "g": task "t": raw_exec shows it the files and the name of the node: ` +
			"dns and hostname of the network have no effect on it",
	}
	if got := JobWarnings(job); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	job.TaskGroups = job.TaskGroups[1:]
	job.TaskGroups[0].Tasks = job.TaskGroups[0].Tasks[1:]
	defaults.Canonicalize(job)
	if disk := job.TaskGroups[0].Tasks[1].Resources.DiskMB; disk != 0 {
		t.Errorf("the job keeps disk %d", disk)
	}
}

// Canaries, auto_promote and a reschedule policy have no effect in a job of every node. The job is accepted
// without them, and warnings name canaries and a policy that is not empty.
func TestJobWarnings_OfJobsOfEveryNode(t *testing.T) {
	canary := func() *structs.UpdateStrategy { // one for each job, which changes it
		u := structs.DefaultUpdateStrategy()
		u.Canary = 1
		u.AutoPromote = true
		return &u
	}
	for name, c := range map[string]struct {
		edit func(*structs.Job)
		want string
	}{
		"canary of the job": {func(j *structs.Job) {
			j.Type = structs.JobSystem
			j.Update = canary()
		}, `group "g": update: canary 1 has no effect: a system job has one allocation on each node`},
		"canary of a group": {func(j *structs.Job) {
			j.Type = structs.JobSystem
			j.TaskGroups[0].Update = canary()
		}, `group "g": update: canary 1 has no effect: a system job has one allocation on each node`},
		"reschedule": {func(j *structs.Job) {
			j.Type = structs.JobSysBatch
			j.TaskGroups[0].ReschedulePolicy = &structs.ReschedulePolicy{Attempts: 1}
		}, `group "g": reschedule has no effect: the instances of a sysbatch job belong to their nodes`},
		"an empty reschedule": {func(j *structs.Job) {
			j.Type = structs.JobSysBatch
			j.TaskGroups[0].ReschedulePolicy = &structs.ReschedulePolicy{}
		}, ""},
	} {
		j := &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{{Name: "g", Tasks: []*structs.Task{{Name: "t", Driver: "raw_exec"}}}}}
		c.edit(j)
		if got := strings.Join(JobWarnings(j), "\n"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
		defaults.Canonicalize(j)
		g := j.TaskGroups[0]
		if g.ReschedulePolicy != nil || g.Update != nil && (g.Update.Canary != 0 || g.Update.AutoPromote) {
			t.Errorf("%s: the group keeps %+v, %+v", name, g.Update, g.ReschedulePolicy)
		}
		if err := Job(j); err != nil && (strings.Contains(err.Error(), "canary") ||
			strings.Contains(err.Error(), "reschedule")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
