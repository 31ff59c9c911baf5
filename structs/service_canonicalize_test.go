package structs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// serving returns an edit that gives the group a service, with a port and edits.
func serving(edits ...func(*Service)) func(*Job) {
	return group(func(g *TaskGroup) {
		g.Networks = []*NetworkResource{{DynamicPorts: []Port{{Label: "http"}}}}
		s := &Service{Name: "web", Provider: ServiceProviderBerth, PortLabel: "http"}
		for _, edit := range edits {
			edit(s)
		}
		g.Services = []*Service{s}
	})
}

func TestService_DefaultsOfTheDialect(t *testing.T) {
	grace := 5 * time.Second
	j := testJob(serving(), group(func(g *TaskGroup) {
		g.Services = []*Service{
			{
				Provider:     "nomad",
				CheckRestart: &CheckRestart{Limit: 3, Grace: &grace, IgnoreWarnings: true},
				OnUpdate:     OnUpdateIgnore,
				TaskName:     g.Tasks[0].Name,
				Checks: []*ServiceCheck{
					{Type: CheckHTTP},
					{Type: CheckScript, InitialStatus: "passing", CheckRestart: &CheckRestart{Limit: 9}},
					{Type: CheckTCP, OnUpdate: OnUpdateIgnoreWarnings, SuccessBeforePassing: -1},
				},
			},
			{Name: "${JOB}-${TASKGROUP}-${TASK}-x", Checks: []*ServiceCheck{{CheckRestart: &CheckRestart{}}}},
		}
		g.Tasks[0].Services = []*Service{
			{Checks: []*ServiceCheck{{Type: CheckScript}}},
			{Name: "a-${BASE}-${TASK}", Provider: ServiceProviderBerth},
			nil,
		}
	}))
	Canonicalize(j)
	g := j.TaskGroups[0]
	task := g.Tasks[0].Name
	first := g.Services[0]
	want := &Service{
		Name:         j.Name + "-" + g.Name,
		TaskName:     task,
		Provider:     ServiceProviderBerth,
		AddressMode:  AddressModeAuto,
		OnUpdate:     OnUpdateIgnore,
		CheckRestart: first.CheckRestart,
		Checks: []*ServiceCheck{
			{
				Name:         fmt.Sprintf("service: %q check", first.Name),
				Type:         CheckHTTP,
				Protocol:     "http",
				Method:       "GET",
				OnUpdate:     OnUpdateIgnore,
				CheckRestart: &CheckRestart{Limit: 3, Grace: &grace, IgnoreWarnings: true},
			},
			{
				Name:          fmt.Sprintf("service: %q check", first.Name),
				Type:          CheckScript,
				TaskName:      task,
				InitialStatus: CheckPassing,
				OnUpdate:      OnUpdateIgnore,
				CheckRestart:  &CheckRestart{Limit: 9, Grace: &grace, IgnoreWarnings: true},
			},
			{
				Name:         fmt.Sprintf("service: %q check", first.Name),
				Type:         CheckTCP,
				OnUpdate:     OnUpdateIgnoreWarnings,
				CheckRestart: &CheckRestart{Limit: 3, Grace: &grace, IgnoreWarnings: true},
			},
		},
	}
	if !reflect.DeepEqual(first, want) {
		t.Errorf("got %s, want %s", describeService(first), describeService(want))
	}
	second := g.Services[1]
	if second.Provider != ServiceProviderConsul || second.OnUpdate != OnUpdateRequireHealthy ||
		*second.Checks[0].CheckRestart.Grace != DefaultCheckGrace || second.Checks[0].CheckRestart.Limit != 0 {
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
func describeService(s *Service) string {
	lines := []string{fmt.Sprintf("%+v", *s)}
	for _, c := range s.Checks {
		lines = append(lines, fmt.Sprintf("%+v with %+v", *c, c.CheckRestart))
	}
	return strings.Join(lines, "\n")
}

// inConsul gives the group a service in Consul with edits.
func inConsul(edit func(*Service)) func(*Job) {
	return serving(func(s *Service) { s.Provider = ServiceProviderConsul }, edit)
}

func weighted(w ServiceWeights) func(*Job) {
	return inConsul(func(s *Service) { s.Weights = &w })
}

func TestServiceWeights_AreAtLeastOne(t *testing.T) {
	j := testJob(weighted(ServiceWeights{Passing: -1}))
	if w := j.TaskGroups[0].Services[0].Weights; *w != (ServiceWeights{Passing: 1, Warning: 1}) {
		t.Errorf("got %+v", w)
	}
}
