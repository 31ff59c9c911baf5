package validate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/defaults"
)

func TestServiceAddresses_NameTheFault(t *testing.T) {
	const onlyConsul = `tagged_addresses and weights are for services with provider = "consul"`
	for _, c := range []struct {
		want string
		edit func(*structs.Job)
	}{
		{onlyConsul, serving(func(s *structs.Service) {
			s.TaggedAddresses = map[string]string{"lan": "192.0.2.1"}
		})},
		{onlyConsul, serving(func(s *structs.Service) { s.Weights = &structs.ServiceWeights{} })},
		{"", tagged(map[string]string{
			"lan": "192.0.2.1", "wan_ipv6": "2001:db8::1", "x": "[2001:db8::1]:80", "y": "a.example:80",
			"${a}": "${a}",
		})},
		{`tagged_addresses: "a b": expected 1 to 128 letters`, tagged(map[string]string{"a b": "192.0.2.1"})},
		{`tagged_addresses: "a.example" is neither an IP`, tagged(map[string]string{"lan": "a.example"})},
		{`tagged_addresses: ":80" is neither`, tagged(map[string]string{"lan": ":80"})},
		{`tagged_addresses: "192.0.2.1:0" is neither`, tagged(map[string]string{"lan": "192.0.2.1:0"})},
		{`services: all names, tags and meta has 2`,
			tagged(map[string]string{"lan": "${" + strings.Repeat("x", 20_000)})},
		{"", weighted(structs.ServiceWeights{Passing: maxWeight})},
		{`weights: passing 65536 must be at most`, weighted(structs.ServiceWeights{Passing: maxWeight + 1})},
		{`weights: warning 65536 must be at most`, weighted(structs.ServiceWeights{Warning: maxWeight + 1})},
	} {
		err := Job(testJob(c.edit))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %.300v, want %q", err, c.want)
		}
	}
}

func TestAddressMode_AllocNeedsAnAddressOfTheAllocation(t *testing.T) {
	service := func(s *structs.Service) { s.AddressMode = structs.AddressModeAlloc }
	check := func(s *structs.Service) {
		s.Checks = []*structs.ServiceCheck{
			{Type: structs.CheckTCP, AddressMode: structs.AddressModeAlloc, Interval: time.Second,
				Timeout: time.Second},
		}
	}
	number := func(s *structs.Service) {
		s.AddressMode = structs.AddressModeAlloc
		s.PortLabel = "8080"
	}
	const none = `address_mode "alloc": the allocations of the group have no addresses of their own`
	for _, c := range []struct {
		want string
		edit func(*structs.Job)
	}{
		{"", inNetwork(structs.NetworkModeBridge, service)},
		{"", inNetwork(structs.NetworkModeBridge, check)},
		{"", inNetwork("cni/lab", number)},
		{none, inNetwork(structs.NetworkModeNone, number)},
		{none, inNetwork(structs.NetworkModeHost, service)},
		{none, inNetwork(structs.NetworkModeHost, check)},
		{none, group(func(g *structs.TaskGroup) {
			g.Services = []*structs.Service{{Name: "web", Provider: "berth", AddressMode: structs.AddressModeAlloc}}
		})},
		{`address: address_mode "alloc" is for a service without an address`,
			inNetwork(structs.NetworkModeBridge, func(s *structs.Service) {
				s.AddressMode = structs.AddressModeAlloc
				s.Address = "192.0.2.1"
			})},
	} {
		err := Job(testJob(c.edit))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %.300v, want %q", err, c.want)
		}
	}
}

func TestService_NamesTheFault(t *testing.T) {
	manyTags := make([]string, structs.MaxServiceTags+1)
	long := strings.Repeat("x", structs.MaxText+1)
	for _, c := range []struct {
		want string
		edit func(*structs.Job)
	}{
		{"", serving()},
		{"", serving(func(s *structs.Service) { s.Name = "web-${node.unique.name}" })},
		{"", serving(func(s *structs.Service) { s.PortLabel = "8080" })},
		{"", serving(func(s *structs.Service) { s.PortLabel = "${NOMAD_META_port}" })},
		{"", serving(func(s *structs.Service) { s.PortLabel = "" })},
		{"", checking()},
		{"", checking(ofType(structs.CheckTCP))},
		{"", checking(func(c *structs.ServiceCheck) {
			c.Protocol = "${a}"
			c.Method = "${a}"
			c.Path = "${a}"
			c.Header = map[string][]string{"${a}": {"${a}"}}
		})},
		{"", serving(func(s *structs.Service) {
			s.Provider = structs.ServiceProviderConsul
			s.Meta = map[string]string{"${a}": "${a}"}
		})},
		{"", checking(ofType(structs.CheckGRPC), func(c *structs.ServiceCheck) { c.GRPCService = "x" })},
		{"", checking(ofType(structs.CheckScript), func(c *structs.ServiceCheck) { c.Command = "/bin/true"; c.TaskName = "t" })},
		{"", group(func(g *structs.TaskGroup) {
			g.Tasks[0].Services = []*structs.Service{{Name: "web", Provider: "nomad", TaskName: g.Tasks[0].Name}}
		})},

		{"a service is null", group(func(g *structs.TaskGroup) { g.Services = []*structs.Service{nil} })},
		{"a service of a task is null", task(func(t *structs.Task) { t.Services = []*structs.Service{nil} })},
		{`service 1: name "a_b" must be 1 to 63`, serving(func(s *structs.Service) { s.Name = "a_b" })},
		{`must be 1 to 63`, serving(func(s *structs.Service) { s.Name = "-a" })},
		{`must be 1 to 63`, serving(func(s *structs.Service) { s.Name = strings.Repeat("a", 64) })},
		{`must be 1 to 63`, serving(func(s *structs.Service) { s.Name = "${a}" + strings.Repeat("a", structs.MaxName) })},
		{"", serving(func(s *structs.Service) { s.Provider = ""; s.EnableTagOverride = true })},
		{"", serving(func(s *structs.Service) {
			s.Provider = structs.ServiceProviderConsul
			s.Meta = map[string]string{"a-B_9": strings.Repeat("x", maxConsulMetaValue)}
		})},
		{`enable_tag_override is for services with provider = "consul"`,
			serving(func(s *structs.Service) { s.EnableTagOverride = true })},
		{`62 meta of a service in Consul; at most 61`, serving(func(s *structs.Service) {
			s.Provider = structs.ServiceProviderConsul
			s.Meta = map[string]string{}
			for i := range maxConsulMeta + 1 {
				s.Meta[fmt.Sprint("k", i)] = "v"
			}
		})},
		{`meta: key "a b": Consul takes 1 to 128 letters`, serving(func(s *structs.Service) {
			s.Provider = structs.ServiceProviderConsul
			s.Meta = map[string]string{"a b": "v"}
		})},
		{`canary_meta: key "consul-x" is one of Consul or berth`, serving(func(s *structs.Service) {
			s.Provider = structs.ServiceProviderConsul
			s.CanaryMeta = map[string]string{"consul-x": "v"}
		})},
		{`meta: the value of "k" has 513 bytes`, serving(func(s *structs.Service) {
			s.Provider = structs.ServiceProviderConsul
			s.Meta = map[string]string{"k": strings.Repeat("x", maxConsulMetaValue+1)}
		})},
		{`provider "etcd" must be`, serving(func(s *structs.Service) { s.Provider = "etcd" })},
		{`on_update "never" must be`, serving(func(s *structs.Service) { s.OnUpdate = "never" })},
		{`address_mode "far" must be`, serving(func(s *structs.Service) { s.AddressMode = "far" })},
		{`address: address_mode "host" is for a service without an address`,
			serving(func(s *structs.Service) { s.AddressMode = structs.AddressModeHost; s.Address = "10.0.0.1" })},
		{`address has 4097 bytes`, serving(func(s *structs.Service) { s.Address = long })},
		{`port "db": the network of the group has no port with this label`,
			serving(func(s *structs.Service) { s.PortLabel = "db" })},
		{`port 0 must be at least 1`, serving(func(s *structs.Service) { s.PortLabel = "0" })},
		{`port 65536 must be at most 65535`, serving(func(s *structs.Service) { s.PortLabel = "65536" })},
		{`65 tags; at most 64`, serving(func(s *structs.Service) { s.Tags = manyTags })},
		{`65 canary_tags; at most 64`, serving(func(s *structs.Service) { s.CanaryTags = manyTags })},
		{`tags: tag has 4097 bytes`, serving(func(s *structs.Service) { s.Tags = []string{long} })},
		{`meta: key "" must not be empty`, serving(func(s *structs.Service) { s.Meta = map[string]string{"": "x"} })},
		{`canary_meta: key "" must not be empty`,
			serving(func(s *structs.Service) { s.CanaryMeta = map[string]string{"": "x"} })},
		{`services: all names, tags and meta has 2`, serving(func(s *structs.Service) {
			s.Meta = map[string]string{"k": strings.Repeat("x", 20_000)}
		})},
		{`service 1: task "none": the group has no such task`,
			serving(func(s *structs.Service) { s.TaskName = "none" })},
		{`task "none": the service is that of task`, group(func(g *structs.TaskGroup) {
			g.Tasks[0].Services = []*structs.Service{{Name: "web", Provider: "berth", TaskName: "none"}}
		})},
		{`the service is there twice with the same port`, group(func(g *structs.TaskGroup) {
			g.Services = []*structs.Service{{Name: "web", Provider: "berth"}, {Name: "web", Provider: "berth"}}
		})},
		{"65 services; at most 64", group(func(g *structs.TaskGroup) {
			for i := range structs.MaxServices + 1 {
				g.Services = append(g.Services, &structs.Service{Name: fmt.Sprint("s", i), Provider: "berth"})
			}
		})},
		{"check_restart: limit -1 must be at least 0", serving(func(s *structs.Service) {
			s.CheckRestart = &structs.CheckRestart{Limit: -1}
		})},
		{"check_restart: grace must not be negative", serving(func(s *structs.Service) {
			s.CheckRestart = &structs.CheckRestart{Grace: new(-time.Second)}
		})},

		{"check 1 is null", serving(func(s *structs.Service) { s.Checks = []*structs.ServiceCheck{nil} })},
		{"65 checks; at most 64", serving(func(s *structs.Service) { s.Checks = make([]*structs.ServiceCheck, structs.MaxServiceChecks+1) })},
		{`check 1: type "icmp" must be`, checking(func(c *structs.ServiceCheck) { c.Type = "icmp" })},
		{"interval must be at least 1s", checking(func(c *structs.ServiceCheck) { c.Interval = 0 })},
		{"interval 48h0m0s must be at most", checking(func(c *structs.ServiceCheck) { c.Interval = 48 * time.Hour })},
		{"timeout must be at least 1s", checking(func(c *structs.ServiceCheck) { c.Timeout = time.Millisecond })},
		{"timeout 48h0m0s must be at most", checking(func(c *structs.ServiceCheck) { c.Timeout = 48 * time.Hour })},
		{`initial_status "ok" must be one of passing, warning, critical, pending`,
			checking(func(c *structs.ServiceCheck) { c.InitialStatus = "ok" })},
		{"success_before_passing 10001 must be at most", checking(func(c *structs.ServiceCheck) { c.SuccessBeforePassing = 10_001 })},
		{"failures_before_critical 10001 must be at most",
			checking(func(c *structs.ServiceCheck) { c.FailuresBeforeCritical = 10_001 })},
		{"check 1: check_restart: limit 10001", checking(func(c *structs.ServiceCheck) {
			c.CheckRestart = &structs.CheckRestart{Limit: 10_001}
		})},
		{`check 1: on_update "x" must be`, checking(func(c *structs.ServiceCheck) { c.OnUpdate = "x" })},
		{"name has 4097 bytes", checking(func(c *structs.ServiceCheck) { c.Name = long })},
		{"tls_server_name has 4097", checking(func(c *structs.ServiceCheck) { c.TLSServerName = long })},
		{"grpc_service has 4097", checking(ofType(structs.CheckGRPC), func(c *structs.ServiceCheck) { c.GRPCService = long })},
		{`check 1: task "none": the group has no such task`, checking(func(c *structs.ServiceCheck) { c.TaskName = "none" })},
		{"command and args are those of a check of type script", checking(func(c *structs.ServiceCheck) { c.Command = "x" })},
		{`address_mode "driver" is for a service of a task`, checking(func(c *structs.ServiceCheck) { c.AddressMode = "driver" })},
		{`port "none": the network of the group has no`, checking(func(c *structs.ServiceCheck) { c.PortLabel = "none" })},
		{"a port is required, in the check or in its service", serving(func(s *structs.Service) {
			s.PortLabel = ""
			s.Checks = []*structs.ServiceCheck{{Type: structs.CheckTCP, Interval: time.Second, Timeout: time.Second}}
		})},
		{"path, method, header and body are those of a check of type http",
			checking(ofType(structs.CheckTCP), func(c *structs.ServiceCheck) { c.Body = "x" })},
		{"check 1: command is required", checking(ofType(structs.CheckScript), func(c *structs.ServiceCheck) { c.TaskName = "t" })},
		{"task is required: the task in which the script runs",
			checking(ofType(structs.CheckScript), func(c *structs.ServiceCheck) { c.Command = "x" })},
		{`protocol "ftp" must be`, checking(func(c *structs.ServiceCheck) { c.Protocol = "ftp" })},
		{`path "x" must begin with /`, checking(func(c *structs.ServiceCheck) { c.Path = "x" })},
		{`method "TRACE" must be`, checking(func(c *structs.ServiceCheck) { c.Method = "TRACE" })},
		{"body has 4097 bytes", checking(func(c *structs.ServiceCheck) { c.Body = long })},
		{`header: "a b" is not the name of a header`,
			checking(func(c *structs.ServiceCheck) { c.Header = map[string][]string{"a b": {"x"}} })},
		{`header: the value of "A" must be one line`,
			checking(func(c *structs.ServiceCheck) { c.Header = map[string][]string{"A": {"x\ny"}} })},
		{"header has 4098 bytes", checking(func(c *structs.ServiceCheck) { c.Header = map[string][]string{"A": {long}} })},
	} {
		err := Job(testJob(c.edit))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("a valid service: %v", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %.300v, want %s", err, c.want)
		case err != nil && len(err.Error()) > structs.MaxErrorText:
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
}

// TestServiceCheck_BeginsAsInConsul has the states that Consul knows, for both providers of services.
func TestServiceCheck_BeginsAsInConsul(t *testing.T) {
	for given, want := range map[string]string{
		"":                   "",
		"passing":            structs.CheckPassing,
		"warning":            structs.CheckWarning,
		"critical":           structs.CheckPending,
		structs.CheckPassing: structs.CheckPassing,
		structs.CheckPending: structs.CheckPending,
	} {
		for _, provider := range []string{structs.ServiceProviderConsul, structs.ServiceProviderBerth} {
			j := testJob(checking(func(c *structs.ServiceCheck) { c.InitialStatus = given }))
			j.TaskGroups[0].Services[0].Provider = provider
			defaults.Canonicalize(j)
			got := j.TaskGroups[0].Services[0].Checks[0].InitialStatus
			if err := Job(j); err != nil || got != want {
				t.Errorf("%s: %q is %q, %v, want %q", provider, given, got, err, want)
			}
		}
	}
}
