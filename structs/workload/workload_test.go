package workload

import (
	"testing"

	"berth/structs"
)

func TestOfTask_HasTheDefaultIdentityFirst(t *testing.T) {
	own := &structs.WorkloadIdentity{Name: structs.DefaultIdentity, Env: true}
	other := &structs.WorkloadIdentity{Name: "aws"}
	for _, task := range []*structs.Task{
		{Identities: []*structs.WorkloadIdentity{nil, other}},
		{Identity: own, Identities: []*structs.WorkloadIdentity{other}},
	} {
		var names []string
		for i := range OfTask(task) {
			names = append(names, i.Name)
		}
		if len(names) != 2 || names[0] != structs.DefaultIdentity || names[1] != "aws" {
			t.Errorf("got %v", names)
		}
		if got := Find(task, structs.DefaultIdentity); got.Env != (task.Identity != nil) {
			t.Errorf("found %+v", got)
		}
	}
	if got := Find(&structs.Task{}, "aws"); got != nil {
		t.Errorf("found %+v", got)
	}
}

func TestPlaces_AreThoseOfTheDialect(t *testing.T) {
	for _, c := range []struct {
		identity  structs.WorkloadIdentity
		path, env string
	}{
		{structs.WorkloadIdentity{Name: "default"}, "secrets/nomad_token", "NOMAD_TOKEN"},
		{structs.WorkloadIdentity{Name: "a-1"}, "secrets/nomad_a-1.jwt", "NOMAD_TOKEN_a_1"},
		{structs.WorkloadIdentity{Name: "a", Filepath: "local/x"}, "local/x", "NOMAD_TOKEN_a"},
	} {
		if path, env := Path(&c.identity), EnvName(&c.identity); path != c.path || env != c.env {
			t.Errorf("%s: got %s, %s", c.identity.Name, path, env)
		}
	}
}
