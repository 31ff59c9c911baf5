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

// checking gives the service a check with edits.
func checking(edits ...func(*ServiceCheck)) func(*Job) {
	return serving(func(s *Service) {
		c := &ServiceCheck{Type: CheckHTTP, Path: "/", Interval: time.Second, Timeout: time.Second}
		for _, edit := range edits {
			edit(c)
		}
		s.Checks = []*ServiceCheck{c}
	})
}

// ofType turns the check into one of another type.
func ofType(kind string) func(*ServiceCheck) {
	return func(c *ServiceCheck) {
		c.Type = kind
		c.Path = ""
	}
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
	j.Canonicalize()
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
	j.Canonicalize()
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

func TestService_NamesTheFault(t *testing.T) {
	manyTags := make([]string, MaxServiceTags+1)
	long := strings.Repeat("x", MaxText+1)
	for _, c := range []struct {
		want string
		edit func(*Job)
	}{
		{"", serving()},
		{"", serving(func(s *Service) { s.Name = "web-${node.unique.name}" })},
		{"", serving(func(s *Service) { s.PortLabel = "8080" })},
		{"", serving(func(s *Service) { s.PortLabel = "${NOMAD_META_port}" })},
		{"", serving(func(s *Service) { s.PortLabel = "" })},
		{"", checking()},
		{"", checking(ofType(CheckTCP))},
		{"", checking(func(c *ServiceCheck) {
			c.Protocol = "${a}"
			c.Method = "${a}"
			c.Path = "${a}"
			c.Header = map[string][]string{"${a}": {"${a}"}}
		})},
		{"", serving(func(s *Service) {
			s.Provider = ServiceProviderConsul
			s.Meta = map[string]string{"${a}": "${a}"}
		})},
		{"", checking(ofType(CheckGRPC), func(c *ServiceCheck) { c.GRPCService = "x" })},
		{"", checking(ofType(CheckScript), func(c *ServiceCheck) { c.Command = "/bin/true"; c.TaskName = "t" })},
		{"", group(func(g *TaskGroup) {
			g.Tasks[0].Services = []*Service{{Name: "web", Provider: "nomad", TaskName: g.Tasks[0].Name}}
		})},

		{"a service is null", group(func(g *TaskGroup) { g.Services = []*Service{nil} })},
		{"a service of a task is null", task(func(t *Task) { t.Services = []*Service{nil} })},
		{`service 1: name "a_b" must be 1 to 63`, serving(func(s *Service) { s.Name = "a_b" })},
		{`must be 1 to 63`, serving(func(s *Service) { s.Name = "-a" })},
		{`must be 1 to 63`, serving(func(s *Service) { s.Name = strings.Repeat("a", 64) })},
		{`must be 1 to 63`, serving(func(s *Service) { s.Name = "${a}" + strings.Repeat("a", MaxName) })},
		{"", serving(func(s *Service) { s.Provider = ""; s.EnableTagOverride = true })},
		{"", serving(func(s *Service) {
			s.Provider = ServiceProviderConsul
			s.Meta = map[string]string{"a-B_9": strings.Repeat("x", maxConsulMetaValue)}
		})},
		{`enable_tag_override is for services with provider = "consul"`,
			serving(func(s *Service) { s.EnableTagOverride = true })},
		{`62 meta of a service in Consul; at most 61`, serving(func(s *Service) {
			s.Provider = ServiceProviderConsul
			s.Meta = map[string]string{}
			for i := range maxConsulMeta + 1 {
				s.Meta[fmt.Sprint("k", i)] = "v"
			}
		})},
		{`meta: key "a b": Consul takes 1 to 128 letters`, serving(func(s *Service) {
			s.Provider = ServiceProviderConsul
			s.Meta = map[string]string{"a b": "v"}
		})},
		{`canary_meta: key "consul-x" is one of Consul or berth`, serving(func(s *Service) {
			s.Provider = ServiceProviderConsul
			s.CanaryMeta = map[string]string{"consul-x": "v"}
		})},
		{`meta: the value of "k" has 513 bytes`, serving(func(s *Service) {
			s.Provider = ServiceProviderConsul
			s.Meta = map[string]string{"k": strings.Repeat("x", maxConsulMetaValue+1)}
		})},
		{`provider "etcd" must be`, serving(func(s *Service) { s.Provider = "etcd" })},
		{`on_update "never" must be`, serving(func(s *Service) { s.OnUpdate = "never" })},
		{`address_mode "far" must be`, serving(func(s *Service) { s.AddressMode = "far" })},
		{`address: address_mode "host" is for a service without an address`,
			serving(func(s *Service) { s.AddressMode = AddressModeHost; s.Address = "10.0.0.1" })},
		{`address has 4097 bytes`, serving(func(s *Service) { s.Address = long })},
		{`port "db": the network of the group has no port with this label`,
			serving(func(s *Service) { s.PortLabel = "db" })},
		{`port 0 must be at least 1`, serving(func(s *Service) { s.PortLabel = "0" })},
		{`port 65536 must be at most 65535`, serving(func(s *Service) { s.PortLabel = "65536" })},
		{`65 tags; at most 64`, serving(func(s *Service) { s.Tags = manyTags })},
		{`65 canary_tags; at most 64`, serving(func(s *Service) { s.CanaryTags = manyTags })},
		{`tags: tag has 4097 bytes`, serving(func(s *Service) { s.Tags = []string{long} })},
		{`meta: key "" must not be empty`, serving(func(s *Service) { s.Meta = map[string]string{"": "x"} })},
		{`canary_meta: key "" must not be empty`,
			serving(func(s *Service) { s.CanaryMeta = map[string]string{"": "x"} })},
		{`services: all names, tags and meta has 2`, serving(func(s *Service) {
			s.Meta = map[string]string{"k": strings.Repeat("x", 20_000)}
		})},
		{`service 1: task "none": the group has no such task`,
			serving(func(s *Service) { s.TaskName = "none" })},
		{`task "none": the service is that of task`, group(func(g *TaskGroup) {
			g.Tasks[0].Services = []*Service{{Name: "web", Provider: "berth", TaskName: "none"}}
		})},
		{`the service is there twice with the same port`, group(func(g *TaskGroup) {
			g.Services = []*Service{{Name: "web", Provider: "berth"}, {Name: "web", Provider: "berth"}}
		})},
		{"65 services; at most 64", group(func(g *TaskGroup) {
			for i := range MaxServices + 1 {
				g.Services = append(g.Services, &Service{Name: fmt.Sprint("s", i), Provider: "berth"})
			}
		})},
		{"check_restart: limit -1 must be at least 0", serving(func(s *Service) {
			s.CheckRestart = &CheckRestart{Limit: -1}
		})},
		{"check_restart: grace must not be negative", serving(func(s *Service) {
			s.CheckRestart = &CheckRestart{Grace: new(-time.Second)}
		})},

		{"check 1 is null", serving(func(s *Service) { s.Checks = []*ServiceCheck{nil} })},
		{"65 checks; at most 64", serving(func(s *Service) { s.Checks = make([]*ServiceCheck, MaxServiceChecks+1) })},
		{`check 1: type "icmp" must be`, checking(func(c *ServiceCheck) { c.Type = "icmp" })},
		{"interval must be at least 1s", checking(func(c *ServiceCheck) { c.Interval = 0 })},
		{"interval 48h0m0s must be at most", checking(func(c *ServiceCheck) { c.Interval = 48 * time.Hour })},
		{"timeout must be at least 1s", checking(func(c *ServiceCheck) { c.Timeout = time.Millisecond })},
		{"timeout 48h0m0s must be at most", checking(func(c *ServiceCheck) { c.Timeout = 48 * time.Hour })},
		{`initial_status "ok" must be one of passing, warning, critical, pending`,
			checking(func(c *ServiceCheck) { c.InitialStatus = "ok" })},
		{"success_before_passing 10001 must be at most", checking(func(c *ServiceCheck) { c.SuccessBeforePassing = 10_001 })},
		{"failures_before_critical 10001 must be at most",
			checking(func(c *ServiceCheck) { c.FailuresBeforeCritical = 10_001 })},
		{"check 1: check_restart: limit 10001", checking(func(c *ServiceCheck) {
			c.CheckRestart = &CheckRestart{Limit: 10_001}
		})},
		{`check 1: on_update "x" must be`, checking(func(c *ServiceCheck) { c.OnUpdate = "x" })},
		{"name has 4097 bytes", checking(func(c *ServiceCheck) { c.Name = long })},
		{"tls_server_name has 4097", checking(func(c *ServiceCheck) { c.TLSServerName = long })},
		{"grpc_service has 4097", checking(ofType(CheckGRPC), func(c *ServiceCheck) { c.GRPCService = long })},
		{`check 1: task "none": the group has no such task`, checking(func(c *ServiceCheck) { c.TaskName = "none" })},
		{"command and args are those of a check of type script", checking(func(c *ServiceCheck) { c.Command = "x" })},
		{`address_mode "driver" is for a service of a task`, checking(func(c *ServiceCheck) { c.AddressMode = "driver" })},
		{`port "none": the network of the group has no`, checking(func(c *ServiceCheck) { c.PortLabel = "none" })},
		{"a port is required, in the check or in its service", serving(func(s *Service) {
			s.PortLabel = ""
			s.Checks = []*ServiceCheck{{Type: CheckTCP, Interval: time.Second, Timeout: time.Second}}
		})},
		{"path, method, header and body are those of a check of type http",
			checking(ofType(CheckTCP), func(c *ServiceCheck) { c.Body = "x" })},
		{"check 1: command is required", checking(ofType(CheckScript), func(c *ServiceCheck) { c.TaskName = "t" })},
		{"task is required: the task in which the script runs",
			checking(ofType(CheckScript), func(c *ServiceCheck) { c.Command = "x" })},
		{`protocol "ftp" must be`, checking(func(c *ServiceCheck) { c.Protocol = "ftp" })},
		{`path "x" must begin with /`, checking(func(c *ServiceCheck) { c.Path = "x" })},
		{`method "TRACE" must be`, checking(func(c *ServiceCheck) { c.Method = "TRACE" })},
		{"body has 4097 bytes", checking(func(c *ServiceCheck) { c.Body = long })},
		{`header: "a b" is not the name of a header`,
			checking(func(c *ServiceCheck) { c.Header = map[string][]string{"a b": {"x"}} })},
		{`header: the value of "A" must be one line`,
			checking(func(c *ServiceCheck) { c.Header = map[string][]string{"A": {"x\ny"}} })},
		{"header has 4098 bytes", checking(func(c *ServiceCheck) { c.Header = map[string][]string{"A": {long}} })},
	} {
		err := testJob(c.edit).Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("a valid service: %v", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %.300v, want %s", err, c.want)
		case err != nil && len(err.Error()) > MaxErrorText:
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
}

func TestServiceReport_NamesTheFault(t *testing.T) {
	for want, edit := range map[string]func(*AllocClientUpdate){
		"":                  func(*AllocClientUpdate) {},
		"a service is null": func(u *AllocClientUpdate) { u.Services[0] = nil },
		`service "web": the ID "i" is there twice`: func(u *AllocClientUpdate) {
			u.Services = append(u.Services, u.Services[0])
		},
		`service "a b": the name is not that`: func(u *AllocClientUpdate) { u.Services[0].ServiceName = "a b" },
		"ID has 1021 bytes":                   func(u *AllocClientUpdate) { u.Services[0].ID = strings.Repeat("x", 1021) },
		"Address has 256 bytes":               func(u *AllocClientUpdate) { u.Services[0].Address = strings.Repeat("x", 256) },
		"Port -1 must be at least 0":          func(u *AllocClientUpdate) { u.Services[0].Port = -1 },
		"Port 65536 must be at most":          func(u *AllocClientUpdate) { u.Services[0].Port = 65536 },
		`Status "fine" must be`:               func(u *AllocClientUpdate) { u.Services[0].Status = "fine" },
		"65 tags; at most 64":                 func(u *AllocClientUpdate) { u.Services[0].Tags = make([]string, 65) },
		"a tag has 4097 bytes": func(u *AllocClientUpdate) {
			u.Services[0].Tags = []string{strings.Repeat("x", MaxText+1)}
		},
		`meta: key "" must not`: func(u *AllocClientUpdate) { u.Services[0].Meta = map[string]string{"": ""} },
		"65 services; at most 64": func(u *AllocClientUpdate) {
			u.Services = make([]*ServiceInstance, MaxServices+1)
		},
		"services: all tags and meta has 40002 bytes": func(u *AllocClientUpdate) {
			u.Services[0].Meta = map[string]string{"k": strings.Repeat("x", 40_000)}
		},
	} {
		u := &AllocClientUpdate{
			ID: "a",
			Services: []*ServiceInstance{{
				ID: "i", ServiceName: "web", Address: "10.0.0.1", Port: 80, Status: CheckPassing, Tags: []string{"x"},
			}},
		}
		edit(u)
		err := u.CheckStates()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %.300v, want %q", err, want)
		}
	}
}

// A text that is cut does not cost the report its services.
func TestBoundedReport_KeepsServices(t *testing.T) {
	u := &AllocClientUpdate{
		ClientDescription: strings.Repeat("x", 2*MaxText),
		Services:          []*ServiceInstance{{ID: "i"}},
	}
	if c := u.Bounded(); c == u || len(c.Services) != 1 {
		t.Errorf("got %+v", c)
	}
}

func TestServiceInstance_EmptyAndMissingTagsAreEqual(t *testing.T) {
	base := func() *ServiceInstance { return &ServiceInstance{ID: "i", Tags: []string{"a"}} }
	if !(&ServiceInstance{Tags: []string{}, Meta: map[string]string{}}).SameAs(&ServiceInstance{}) {
		t.Error("empty tags or meta differ from missing ones")
	}
	var none *ServiceInstance
	if none.SameAs(base()) || base().SameAs(none) || !none.SameAs(none) {
		t.Error("a missing instance is equal to another")
	}
	for name, edit := range map[string]func(*ServiceInstance){
		"ID":          func(i *ServiceInstance) { i.ID = "x" },
		"ServiceName": func(i *ServiceInstance) { i.ServiceName = "x" },
		"Tags":        func(i *ServiceInstance) { i.Tags = []string{"x"} },
		"Meta":        func(i *ServiceInstance) { i.Meta = map[string]string{"x": ""} },
		"Address":     func(i *ServiceInstance) { i.Address = "x" },
		"Port":        func(i *ServiceInstance) { i.Port = 1 },
		"Status":      func(i *ServiceInstance) { i.Status = "x" },
		"Indexes":     func(i *ServiceInstance) { i.ModifyIndex = 7 },
	} {
		other := base()
		edit(other)
		if base().SameAs(other) != (name == "Indexes") {
			t.Errorf("with another %s they are equal: %v", name, base().SameAs(other))
		}
	}
}

func TestWorstStatus_Ordered(t *testing.T) {
	order := []string{"", CheckPassing, CheckWarning, CheckPending, CheckFailing}
	for i, a := range order {
		for n, b := range order {
			if got := WorstStatus(a, b); got != order[max(i, n)] {
				t.Errorf("%q and %q: got %q", a, b, got)
			}
		}
	}
}

// TestServiceCheck_BeginsAsInConsul has the states that Consul knows, for both providers of services.
func TestServiceCheck_BeginsAsInConsul(t *testing.T) {
	for given, want := range map[string]string{
		"":           "",
		"passing":    CheckPassing,
		"warning":    CheckWarning,
		"critical":   CheckPending,
		CheckPassing: CheckPassing,
		CheckPending: CheckPending,
	} {
		for _, provider := range []string{ServiceProviderConsul, ServiceProviderBerth} {
			j := testJob(checking(func(c *ServiceCheck) { c.InitialStatus = given }))
			j.TaskGroups[0].Services[0].Provider = provider
			j.Canonicalize()
			got := j.TaskGroups[0].Services[0].Checks[0].InitialStatus
			if err := j.Validate(); err != nil || got != want {
				t.Errorf("%s: %q is %q, %v, want %q", provider, given, got, err, want)
			}
		}
	}
}
