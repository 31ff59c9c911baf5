package rights_test

import (
	"fmt"
	"testing"

	"berth/endpoints/rights"
	"berth/structs"
)

// A job that has volumes created for it needs the rights to create and to claim each of them. The servers
// give them their names, so the source of the request counts for nothing.
func TestJobSubmit_AsksForTheVolumesToCreate(t *testing.T) {
	for name, c := range map[string]struct {
		perAlloc     bool
		volume       string // of the rule
		capabilities string
		want         bool
	}{
		"both rights":                   {volume: "db.g.v", capabilities: `"claim", "write"`, want: true},
		"no right to create":            {volume: "db.g.v", capabilities: `"claim"`},
		"no right to claim":             {volume: "db.g.v", capabilities: `"write"`},
		"rights on the source alone":    {volume: "mine", capabilities: `"claim", "write"`},
		"both rights on each":           {true, "db.g.v[0]", `"claim", "write"`, true},
		"no right to create one":        {true, "db.g.v[0]", `"claim"`, false},
		"rights on another one of them": {true, "db.g.v[1]", `"claim", "write"`, false},
	} {
		rules := fmt.Sprintf(`
namespace "team" {
  capabilities = ["submit-job"]
  volume %q { capabilities = [%s] }
}`, c.volume, c.capabilities)
		job := &structs.Job{ID: "db", Namespace: "team", TaskGroups: []*structs.TaskGroup{{
			Name: "g",
			Volumes: map[string]*structs.VolumeRequest{"v": {
				Type:     structs.VolumeTypeCSI,
				Source:   "mine",
				Class:    "fast",
				Size:     1 << 30,
				PerAlloc: c.perAlloc,
			}},
		}}}

		got := rights.JobSubmit.Allows(ask(t, rules, &structs.JobRegisterRequest{Job: job}))
		planned := rights.JobPlan.Allows(ask(t, rules, &structs.JobPlanRequest{Job: job}))
		if got != c.want || planned != c.want {
			t.Errorf("%s: submit %t, plan %t; want %t", name, got, planned, c.want)
		}
		if job.TaskGroups[0].Volumes["v"].Source != "mine" {
			t.Error("the question about the rights has changed the job")
		}
	}
}

// An inline volume has parameters of the job's choice, so it needs the same rights.
func TestJobSubmit_AsksForInlineVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		volume, capabilities string
		want                 bool
	}{
		"both rights":                {"db.g.v[ALLOC]", `"claim", "write"`, true},
		"no right to create":         {"db.g.v[ALLOC]", `"claim"`, false},
		"no right to claim":          {"db.g.v[ALLOC]", `"write"`, false},
		"rights on the source alone": {"mine", `"claim", "write"`, false},
	} {
		rules := fmt.Sprintf(`
namespace "team" {
  capabilities = ["submit-job"]
  volume %q { capabilities = [%s] }
}`, c.volume, c.capabilities)
		job := &structs.Job{ID: "db", Namespace: "team", TaskGroups: []*structs.TaskGroup{{
			Name: "g",
			Volumes: map[string]*structs.VolumeRequest{"v": {
				Type:      structs.VolumeTypeCSI,
				Source:    "mine",
				Lifecycle: structs.LifecycleInline,
				PluginID:  "nfs",
			}},
		}}}
		got := rights.JobSubmit.Allows(ask(t, rules, &structs.JobRegisterRequest{Job: job}))
		if got != c.want {
			t.Errorf("%s: submit %t, want %t", name, got, c.want)
		}
	}
}
