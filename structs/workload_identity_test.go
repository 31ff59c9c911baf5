package structs

import (
	"testing"
)

func TestOfTask_HasTheDefaultIdentityFirst(t *testing.T) {
	own := &WorkloadIdentity{Name: DefaultIdentity, Env: true}
	other := &WorkloadIdentity{Name: "aws"}
	for _, task := range []*Task{
		{Identities: []*WorkloadIdentity{nil, other}},
		{Identity: own, Identities: []*WorkloadIdentity{other}},
	} {
		var names []string
		for i := range TaskIdentities(task) {
			names = append(names, i.Name)
		}
		if len(names) != 2 || names[0] != DefaultIdentity || names[1] != "aws" {
			t.Errorf("got %v", names)
		}
		if got := FindIdentity(task, DefaultIdentity); got.Env != (task.Identity != nil) {
			t.Errorf("found %+v", got)
		}
	}
	if got := FindIdentity(&Task{}, "aws"); got != nil {
		t.Errorf("found %+v", got)
	}
}

func TestPlaces_AreThoseOfTheDialect(t *testing.T) {
	for _, c := range []struct {
		identity  WorkloadIdentity
		path, env string
	}{
		{WorkloadIdentity{Name: "default"}, "secrets/nomad_token", "NOMAD_TOKEN"},
		{WorkloadIdentity{Name: "a-1"}, "secrets/nomad_a-1.jwt", "NOMAD_TOKEN_a_1"},
		{WorkloadIdentity{Name: "a", Filepath: "local/x"}, "local/x", "NOMAD_TOKEN_a"},
	} {
		if path, env := IdentityPath(&c.identity), IdentityEnv(&c.identity); path != c.path || env != c.env {
			t.Errorf("%s: got %s, %s", c.identity.Name, path, env)
		}
	}
}
