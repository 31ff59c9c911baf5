package defaults

import (
	"reflect"
	"testing"
	"time"

	"berth/structs"
)

func TestIdentity_HasDefaults(t *testing.T) {
	type identity = structs.WorkloadIdentity
	canonical := func(edit func(*structs.Task)) *structs.Task {
		j := testJob(func(j *structs.Job) { edit(j.TaskGroups[0].Tasks[0]) })
		return j.TaskGroups[0].Tasks[0]
	}
	for name, edit := range map[string]func(*structs.Task){
		"an empty block":  func(task *structs.Task) { task.Identity = &identity{} },
		"one in the list": func(task *structs.Task) { task.Identities = []*identity{{}} },
	} {
		task := canonical(edit)
		if !reflect.DeepEqual(task.Identity, structs.NewDefaultIdentity()) || len(task.Identities) > 0 {
			t.Errorf("%s: got %+v, %v", name, task.Identity, task.Identities)
		}
	}
	task := canonical(func(task *structs.Task) { task.Identity = &identity{TTL: time.Minute} })
	if task.Identity.TTL != time.Minute || !structs.IsEndlessIdentity(structs.NewDefaultIdentity()) {
		t.Errorf("got the time to live %s, want that of the block", task.Identity.TTL)
	}
	if task := canonical(func(*structs.Task) {}); task.Identity != nil || task.Identities != nil {
		t.Errorf("got %+v without a block", task.Identity)
	}

	task = canonical(func(task *structs.Task) {
		task.Identities = []*identity{nil, {Name: "x", ChangeMode: structs.TemplateSignal}}
	})
	want := &identity{Name: "x", ChangeMode: "signal", ChangeSignal: "SIGHUP", TTL: structs.DefaultIdentityTTL}
	if got := task.Identities[1]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// TestServiceIdentity_IsNamedAfterItsService checks the names in which login rules may look for their parts.
func TestServiceIdentity_IsNamedAfterItsService(t *testing.T) {
	j := testJob(func(j *structs.Job) {
		service := func() *structs.Service {
			return &structs.Service{Name: "web", PortLabel: "80", Identity: &structs.WorkloadIdentity{}}
		}
		g := j.TaskGroups[0]
		g.Services = []*structs.Service{service()}
		g.Tasks[0].Services = []*structs.Service{service()}
	})
	g := j.TaskGroups[0]
	for want, s := range map[string]*structs.Service{
		"consul-service_web-80":                         g.Services[0],
		"consul-service_" + g.Tasks[0].Name + "-web-80": g.Tasks[0].Services[0],
	} {
		if s.Identity.Name != want || s.Identity.ServiceName != "web" {
			t.Errorf("got %+v, want the name %s", s.Identity, want)
		}
	}
}
