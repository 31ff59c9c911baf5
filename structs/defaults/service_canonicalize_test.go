package defaults

import (
	"berth/structs"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// serving returns an edit that gives the group a service, with a port and edits.
func serving(edits ...func(*structs.Service)) func(*structs.Job) {
	return group(func(g *structs.TaskGroup) {
		g.Networks = []*structs.NetworkResource{{DynamicPorts: []structs.Port{{Label: "http"}}}}
		s := &structs.Service{Name: "web", Provider: structs.ServiceProviderBerth, PortLabel: "http"}
		for _, edit := range edits {
			edit(s)
		}
		g.Services = []*structs.Service{s}
	})
}

func TestService_DefaultsOfTheDialect(t *testing.T) {
	grace := 5 * time.Second
	j := testJob(serving(), group(func(g *structs.TaskGroup) {
		g.Services = []*structs.Service{
			{
				Provider:     "nomad",
				CheckRestart: &structs.CheckRestart{Limit: 3, Grace: &grace, IgnoreWarnings: true},
				OnUpdate:     structs.OnUpdateIgnore,
				TaskName:     g.Tasks[0].Name,
				Checks: []*structs.ServiceCheck{
					{Type: structs.CheckHTTP},
					{Type: structs.CheckScript, InitialStatus: "passing", CheckRestart: &structs.CheckRestart{Limit: 9}},
					{Type: structs.CheckTCP, OnUpdate: structs.OnUpdateIgnoreWarnings, SuccessBeforePassing: -1},
				},
			},
			{Name: "${JOB}-${TASKGROUP}-${TASK}-x", Checks: []*structs.ServiceCheck{{CheckRestart: &structs.CheckRestart{}}}},
		}
		g.Tasks[0].Services = []*structs.Service{
			{Checks: []*structs.ServiceCheck{{Type: structs.CheckScript}}},
			{Name: "a-${BASE}-${TASK}", Provider: structs.ServiceProviderBerth},
			nil,
		}
	}))
	Canonicalize(j)
	g := j.TaskGroups[0]
	task := g.Tasks[0].Name
	first := g.Services[0]
	want := &structs.Service{
		Name:         j.Name + "-" + g.Name,
		TaskName:     task,
		Provider:     structs.ServiceProviderBerth,
		AddressMode:  structs.AddressModeAuto,
		OnUpdate:     structs.OnUpdateIgnore,
		CheckRestart: first.CheckRestart,
		Checks: []*structs.ServiceCheck{
			{
				Name:         fmt.Sprintf("service: %q check", first.Name),
				Type:         structs.CheckHTTP,
				Protocol:     "http",
				Method:       "GET",
				OnUpdate:     structs.OnUpdateIgnore,
				CheckRestart: &structs.CheckRestart{Limit: 3, Grace: &grace, IgnoreWarnings: true},
			},
			{
				Name:          fmt.Sprintf("service: %q check", first.Name),
				Type:          structs.CheckScript,
				TaskName:      task,
				InitialStatus: structs.CheckPassing,
				OnUpdate:      structs.OnUpdateIgnore,
				CheckRestart:  &structs.CheckRestart{Limit: 9, Grace: &grace, IgnoreWarnings: true},
			},
			{
				Name:         fmt.Sprintf("service: %q check", first.Name),
				Type:         structs.CheckTCP,
				OnUpdate:     structs.OnUpdateIgnoreWarnings,
				CheckRestart: &structs.CheckRestart{Limit: 3, Grace: &grace, IgnoreWarnings: true},
			},
		},
	}
	if !reflect.DeepEqual(first, want) {
		t.Errorf("got %s, want %s", describeService(first), describeService(want))
	}
	second := g.Services[1]
	if second.Provider != structs.ServiceProviderConsul || second.OnUpdate != structs.OnUpdateRequireHealthy ||
		*second.Checks[0].CheckRestart.Grace != structs.DefaultCheckGrace ||
		second.Checks[0].CheckRestart.Limit != 0 {
		t.Errorf("got %s", describeService(second))
	}
	ofTask := g.Tasks[0].Services
	base := j.Name + "-" + g.Name + "-"
	for want, got := range map[string]string{
		base + "group-x":                   second.Name,
		base + task:                        ofTask[0].Name,
		"a-" + base + task + "-" + task:    ofTask[1].Name,
		"script in " + task:                "script in " + ofTask[0].Checks[0].TaskName,
		"check_restart of no check: false": fmt.Sprint("check_restart of no check: ", ofTask[0].Checks[0].CheckRestart != nil),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	again := describeService(first)
	Canonicalize(j)
	if describeService(first) != again {
		t.Error("a second time changes the service")
	}
}

// describeService writes a service with its checks.
func describeService(s *structs.Service) string {
	lines := []string{fmt.Sprintf("%+v", *s)}
	for _, c := range s.Checks {
		lines = append(lines, fmt.Sprintf("%+v with %+v", *c, c.CheckRestart))
	}
	return strings.Join(lines, "\n")
}

// inConsul gives the group a service in Consul with edits.
func inConsul(edit func(*structs.Service)) func(*structs.Job) {
	return serving(func(s *structs.Service) { s.Provider = structs.ServiceProviderConsul }, edit)
}

func weighted(w structs.ServiceWeights) func(*structs.Job) {
	return inConsul(func(s *structs.Service) { s.Weights = &w })
}

func TestServiceWeights_AreAtLeastOne(t *testing.T) {
	j := testJob(weighted(structs.ServiceWeights{Passing: -1}))
	if w := j.TaskGroups[0].Services[0].Weights; *w != (structs.ServiceWeights{Passing: 1, Warning: 1}) {
		t.Errorf("got %+v", w)
	}
}
