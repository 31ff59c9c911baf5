package services

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/test/jobtext"
)

// offerOf resolves a service of a task named jobtext.Value.
func offerOf(t *testing.T, s *structs.Service, canary bool) *offer {
	t.Helper()
	f := newFixture(t, func(g *structs.TaskGroup) {
		g.Tasks[0].Name = jobtext.Value
		g.Tasks[0].Services = []*structs.Service{s}
	})
	f.Expand = func(task string) func(string) string {
		return func(text string) string { return strings.ReplaceAll(text, jobtext.Placeholder, task) }
	}
	f.Consul = newFakeConsul()
	f.alloc.Ports[0].Label = jobtext.Value
	f.alloc.DeploymentStatus = &structs.AllocDeploymentStatus{Canary: canary}
	o, err := f.resolve(structs.OwnedService{Owner: jobtext.Value, Service: s})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// fill returns a service and a check with placeholders in all their texts, but for the words by which they
// are checked.
func fill(checkType string) *structs.Service {
	c := jobtext.Fill(&structs.ServiceCheck{
		Interval: time.Second,
		Timeout:  time.Second,
	})
	c.Type = checkType
	s := jobtext.Fill(&structs.Service{})
	s.Provider = structs.ServiceProviderConsul
	s.TaggedAddresses = map[string]string{jobtext.Placeholder: jobtext.Placeholder + ":80"}
	s.Checks = []*structs.ServiceCheck{c}
	return s
}

func TestServices_ReplacePlaceholders(t *testing.T) {
	stable := offerOf(t, fill(structs.CheckTCP), false).instance
	canary := offerOf(t, fill(structs.CheckTCP), true).instance
	registered := offerOf(t, fill(structs.CheckTCP), false).inConsul
	tags := []string{jobtext.Value}
	meta := map[string]string{jobtext.Value: jobtext.Value}
	replaced := map[string]bool{
		"Service.Name":       stable.ServiceName == jobtext.Value,
		"Service.PortLabel":  stable.Port == 20000,
		"Service.Address":    stable.Address == jobtext.Value,
		"Service.Tags":       slices.Equal(stable.Tags, tags),
		"Service.Meta":       maps.Equal(stable.Meta, meta),
		"Service.CanaryTags": slices.Equal(canary.Tags, tags),
		"Service.CanaryMeta": maps.Equal(canary.Meta, meta),

		"Service.TaggedAddresses": registered.TaggedAddresses[jobtext.Value].Address == jobtext.Value,
	}
	check := offerOf(t, fill(structs.CheckTCP), false).checks[0].target.Check
	maps.Copy(replaced, jobtext.Replaced(check))
	jobtext.Check(t, "client/mesh/services", replaced)
}

// TestChecks_AreValidAfterTheReplacement offers services whose placeholders have values that a job cannot
// have.
func TestChecks_AreValidAfterTheReplacement(t *testing.T) {
	for want, edit := range map[string]func(*structs.Service, *structs.ServiceCheck){
		"": func(_ *structs.Service, c *structs.ServiceCheck) {
			c.Method = "${task}"
			c.Header = map[string][]string{"X-${task}": {"1"}}
		},
		`method "POST/" must be`: func(_ *structs.Service, c *structs.ServiceCheck) { c.Method = "${task}/" },
		`protocol "POSTs" must`:  func(_ *structs.Service, c *structs.ServiceCheck) { c.Protocol = "${task}s" },
		`"POST:" is not the name`: func(_ *structs.Service, c *structs.ServiceCheck) {
			c.Header = map[string][]string{"${task}:": {"1"}}
		},
		`path "POST" must begin with /`: func(_ *structs.Service, c *structs.ServiceCheck) { c.Path = "${task}" },
		`key "POST.": Consul takes`: func(s *structs.Service, _ *structs.ServiceCheck) {
			s.Meta = map[string]string{"${task}.": "1"}
		},
	} {
		t.Run(want, func(t *testing.T) {
			c := &structs.ServiceCheck{Type: structs.CheckHTTP, Protocol: "http", Method: "GET", Path: "/"}
			s := inConsul("web", c)
			edit(s, c)
			f := newFixture(t, func(g *structs.TaskGroup) { g.Tasks[0].Name = "POST" })
			f.Consul = newFakeConsul()
			_, err := f.resolve(structs.OwnedService{Owner: "POST", Service: s})
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestScript_HasThePlaceholdersOfItsTask resolves a script of a group's service.
func TestScript_HasThePlaceholdersOfItsTask(t *testing.T) {
	c := scriptCheck()
	c.Args = []string{"${task}"}
	c.TaskName = "b"
	f := newFixture(t, func(*structs.TaskGroup) {})
	o, err := f.resolve(structs.OwnedService{Service: &structs.Service{
		Name:   "web",
		Checks: []*structs.ServiceCheck{c},
	}})
	if err != nil || !slices.Equal(o.checks[0].target.Check.Args, []string{"b"}) {
		t.Errorf("got %+v, %v", o, err)
	}
}
