package job_test

import (
	"slices"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/state"
	"berth/structs"
)

// edgeJob has two gateways with a configuration entry and one without.
func edgeJob(id string) *structs.Job {
	j := endpointstest.Job(id)
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
	s := endpointstest.New(t)
	request := &structs.JobRegisterRequest{Job: edgeJob("edge")}
	endpointstest.Rejected(s, structs.KindPrecondition, structs.JobRegister, request)
	f := &endpointstest.FakeConsul{Broken: structs.Unavailablef("away")}
	s.Consul = f
	endpointstest.Rejected(s, structs.KindUnavailable, structs.JobRegister, request)
	if state.Job(s.Store.Read(), structs.DefaultNamespace, "edge") != nil {
		t.Error("a job is registered whose gateways have no entries")
	}
	f.Broken = nil
	f.Entries = nil
	s.Raft.Fail(structs.NotServedf("this server does not lead any more"))
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.JobRegister, request)
	s.Raft.Fail(nil)
	if !structs.IsNotServed(err) || len(f.Entries) != 2 {
		t.Errorf("%v keeps the job from the next leader; written: %q", err, f.Entries)
	}
	f.Entries = nil
	late := *request
	late.EnforceIndex = true
	late.JobModifyIndex = 7
	endpointstest.Rejected(s, structs.KindConflict, structs.JobRegister, &late)
	if len(f.Entries) != 0 {
		t.Errorf("a rejected registration has written %q", f.Entries)
	}
	endpointstest.Must(s, structs.JobRegister, request)
	request.Job.Priority = 60
	endpointstest.Must(s, structs.JobRegister, request)
	endpointstest.Rejected(s, structs.KindConflict, structs.JobRevert, &structs.JobRevertRequest{
		JobID:               "edge",
		EnforcePriorVersion: new(uint64(9)),
	})
	endpointstest.Must(s, structs.JobRevert, &structs.JobRevertRequest{JobID: "edge"})
	slices.Sort(f.Entries)
	if !slices.Equal(f.Entries, []string{"in", "in", "in", "out", "out", "out"}) {
		t.Errorf("written: %q", f.Entries)
	}
}
