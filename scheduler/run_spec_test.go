package scheduler

import (
	"testing"

	"berth/structs"
)

func TestSameRunSpec_KnowsWhatProxiesLearnLater(t *testing.T) {
	spec := func(edit func(*structs.Service)) *structs.Job {
		s := &structs.Service{
			Name: "web",
			Connect: &structs.Connect{SidecarService: &structs.SidecarService{
				Port:  "mesh",
				Proxy: &structs.ConnectProxy{},
			}},
		}
		edit(s)
		return &structs.Job{TaskGroups: []*structs.TaskGroup{{Services: []*structs.Service{s}}}}
	}
	gateway := func(port int) func(*structs.Service) {
		return func(s *structs.Service) {
			listeners := []*structs.GatewayListener{{Port: port}}
			s.Connect = &structs.Connect{Gateway: &structs.Gateway{
				Ingress: &structs.GatewayIngress{Listeners: listeners},
			}}
		}
	}
	same := func(a, b *structs.Job) bool { return sameRunSpec(a, a.TaskGroups[0], b, b.TaskGroups[0]) }
	old := spec(func(*structs.Service) {})
	upstreams := spec(func(s *structs.Service) {
		s.Connect.SidecarService.Proxy.Upstreams = []*structs.ConnectUpstream{{DestinationName: "api"}}
	})
	if !same(old, upstreams) {
		t.Error("another upstream replaces the allocations")
	}
	for name, edit := range map[string]func(*structs.Service){
		"no connect":    func(s *structs.Service) { s.Connect = nil },
		"native":        func(s *structs.Service) { s.Connect = &structs.Connect{Native: true} },
		"another port":  func(s *structs.Service) { s.Connect.SidecarService.Port = "other" },
		"another name":  func(s *structs.Service) { s.Name = "other" },
		"another entry": gateway(1),
	} {
		if same(old, spec(edit)) {
			t.Errorf("%s: the allocations run on", name)
		}
	}
	if same(spec(gateway(1)), spec(gateway(2))) {
		t.Error("a gateway with another port runs on")
	}
}

// TestSameRunSpec_KeepsTasksWithAnotherTimeToLive checks that only the time to live of a token may change
// below a running task.
func TestSameRunSpec_KeepsTasksWithAnotherTimeToLive(t *testing.T) {
	same := func(a, b structs.WorkloadIdentity) bool {
		job := func(i structs.WorkloadIdentity) *structs.Job {
			task := &structs.Task{Identity: &i, Identities: []*structs.WorkloadIdentity{&i}}
			return &structs.Job{TaskGroups: []*structs.TaskGroup{{Tasks: []*structs.Task{task}}}}
		}
		x := job(a)
		y := job(b)
		return sameRunSpec(x, x.TaskGroups[0], y, y.TaskGroups[0])
	}
	old := structs.WorkloadIdentity{Name: "x", TTL: 1}
	if !same(old, structs.WorkloadIdentity{Name: "x", TTL: 2}) {
		t.Error("another time to live replaces the allocations")
	}
	if same(old, structs.WorkloadIdentity{Name: "x", TTL: 1, File: true}) {
		t.Error("a task without its new file runs on")
	}
}

// The servers grow the volume of a job while its tasks use it. That of one allocation has its first size.
func TestSameRunSpec_KeepsTasksWhoseVolumeGrows(t *testing.T) {
	same := func(before, after structs.VolumeRequest) bool {
		job := func(v structs.VolumeRequest) *structs.Job {
			volumes := map[string]*structs.VolumeRequest{"data": &v}
			group := &structs.TaskGroup{Volumes: volumes}
			return &structs.Job{TaskGroups: []*structs.TaskGroup{group}}
		}
		x := job(before)
		y := job(after)
		return sameRunSpec(x, x.TaskGroups[0], y, y.TaskGroups[0])
	}
	asked := structs.VolumeRequest{Class: "fast", Size: 1}
	if !same(asked, structs.VolumeRequest{Class: "fast", Size: 2}) {
		t.Error("a larger size replaces the allocations")
	}
	if same(asked, structs.VolumeRequest{Class: "fast", Size: 2, ReadOnly: true}) {
		t.Error("a task whose volume becomes read-only runs on")
	}
	asked.Lifecycle = structs.LifecycleAlloc
	if same(asked, structs.VolumeRequest{Class: "fast", Size: 2, Lifecycle: structs.LifecycleAlloc}) {
		t.Error("an allocation keeps its own volume, which does not grow")
	}
}
