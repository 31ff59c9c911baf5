package endpoints

import (
	"slices"
	"testing"

	"berth/state"
	"berth/structs"
)

// withConsul gives a server a Consul, as jobs with gateways need it.
func withConsul(s *server) *server {
	s.Consul = &fakeConsul{}
	return s
}

// edgeJob has two gateways with a configuration entry and one without.
func edgeJob(id string) *structs.Job {
	j := testJob(id)
	g := j.TaskGroups[0]
	g.Networks = []*structs.NetworkResource{{Mode: structs.NetworkModeBridge}}
	for name, gateway := range map[string]*structs.Gateway{
		"in": {Ingress: &structs.GatewayIngress{Listeners: []*structs.GatewayListener{{
			Port:     8080,
			Protocol: "tcp",
			Services: []*structs.GatewayIngressService{{Name: "web"}},
		}}}},
		"out": {Terminating: &structs.GatewayTerminating{
			Services: []*structs.GatewayLinkedService{{Name: "old"}},
		}},
		"between": {Mesh: &structs.GatewayMesh{}},
	} {
		g.Services = append(g.Services, &structs.Service{
			Name:      name,
			PortLabel: "8080",
			Provider:  structs.ServiceProviderConsul,
			Connect:   &structs.Connect{Gateway: gateway},
		})
	}
	return j
}

func TestRegister_WritesTheEntriesOfGatewaysFirst(t *testing.T) {
	s := newServer(t)
	request := &structs.JobRegisterRequest{Job: edgeJob("edge")}
	rejected(s, structs.KindPrecondition, structs.JobRegister, request)
	f := &fakeConsul{broken: structs.Unavailablef("away")}
	s.Consul = f
	rejected(s, structs.KindUnavailable, structs.JobRegister, request)
	if state.Job(s.Store.Read(), structs.DefaultNamespace, "edge") != nil {
		t.Error("a job is registered whose gateways have no entries")
	}
	f.broken = nil
	f.entries = nil
	s.raft.proposed = structs.NotServedf("this server does not lead any more")
	err := rejected(s, structs.KindUnavailable, structs.JobRegister, request)
	s.raft.proposed = nil
	if !structs.IsNotServed(err) || len(f.entries) != 2 {
		t.Errorf("%v keeps the job from the next leader; written: %q", err, f.entries)
	}
	f.entries = nil
	late := *request
	late.EnforceIndex = true
	late.JobModifyIndex = 7
	rejected(s, structs.KindConflict, structs.JobRegister, &late)
	if len(f.entries) != 0 {
		t.Errorf("a rejected registration has written %q", f.entries)
	}
	must(s, structs.JobRegister, request)
	request.Job.Priority = 60
	must(s, structs.JobRegister, request)
	rejected(s, structs.KindConflict, structs.JobRevert, &structs.JobRevertRequest{
		JobID:               "edge",
		EnforcePriorVersion: new(uint64(9)),
	})
	must(s, structs.JobRevert, &structs.JobRevertRequest{JobID: "edge"})
	slices.Sort(f.entries)
	if !slices.Equal(f.entries, []string{"in", "in", "in", "out", "out", "out"}) {
		t.Errorf("written: %q", f.entries)
	}
}
