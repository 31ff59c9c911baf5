package validate

import (
	"fmt"
	"strings"
	"testing"

	"berth/structs"
)

func TestNetwork_NamesTheFault(t *testing.T) {
	many := make([]structs.Port, structs.MaxGroupPorts+1)
	for i := range many {
		many[i].Label = fmt.Sprint("p", i)
	}
	for _, c := range []struct {
		want string
		edit func(*structs.Job)
	}{
		{"", networked(structs.NetworkResource{})},
		{"", networked(structs.NetworkResource{Mode: "host"})},
		{"", dynamic(structs.Port{Label: "http"}, structs.Port{Label: "web-admin", To: 80, HostNetwork: "public"})},
		{"", dynamic(structs.Port{Label: "http", To: -1})},
		{"", static(structs.Port{Label: "a", Value: 80},
			structs.Port{Label: "b", Value: 80, HostNetwork: "private"})},
		{"", dynamic(many[1:]...)},
		{"", networked(structs.NetworkResource{Mode: "bridge", DynamicPorts: []structs.Port{{Label: "a"}}, Hostname: "a.b-c"})},
		{"", networked(structs.NetworkResource{Mode: "none", Hostname: "${NOMAD_ALLOC_ID}"})},
		{"", networked(structs.NetworkResource{Mode: "cni/lab-1.x", DynamicPorts: []structs.Port{{Label: "a"}}})},
		{"", networked(structs.NetworkResource{DNS: &structs.DNSConfig{
			Servers:  []string{"10.0.0.1", "fd00::1", "${meta.dns}"},
			Searches: []string{"a.b", "."},
			Options:  []string{"ndots:2"},
		}})},
		{`network: mode "cni/" is none of "host", "bridge", "none" and "cni/NAME"`,
			networked(structs.NetworkResource{Mode: "cni/"})},
		{`network: mode "cni/../x" is none of`, networked(structs.NetworkResource{Mode: "cni/../x"})},
		{`network: mode "Bridge" is none of`, networked(structs.NetworkResource{Mode: "Bridge"})},
		{`a network with mode "none" has no ports`,
			networked(structs.NetworkResource{Mode: "none", DynamicPorts: []structs.Port{{Label: "a"}}})},
		{`network: hostname: the tasks have the name of the node with mode "host"`,
			networked(structs.NetworkResource{Hostname: "a"})},
		{`network: hostname "-a" must be a name`, networked(structs.NetworkResource{Mode: "none", Hostname: "-a"})},
		{`network: hostname "aaaaaaaa`, networked(structs.NetworkResource{Mode: "none", Hostname: strings.Repeat("a", 65)})},
		{`network: dns: servers 1: "dns.example" is not an IP address`,
			networked(structs.NetworkResource{DNS: &structs.DNSConfig{Servers: []string{"dns.example"}}})},
		{`network: dns: searches 1: "" is not a domain`,
			networked(structs.NetworkResource{DNS: &structs.DNSConfig{Searches: []string{""}}})},
		{`network: dns: options 1: "a\nnameserver 1.1.1.1" is not an option`,
			networked(structs.NetworkResource{DNS: &structs.DNSConfig{Options: []string{"a\nnameserver 1.1.1.1"}}})},
		{"network: dns: 17 servers; at most 16",
			networked(structs.NetworkResource{DNS: &structs.DNSConfig{Servers: make([]string,
				structs.MaxResolvers+1)}})},
		{"", func(j *structs.Job) {
			networked(structs.NetworkResource{Mode: "bridge"})(j)
			group(func(g *structs.TaskGroup) { g.Tasks[0].Driver = "docker" })(j)
		}},
		{"network: device, cidr and ip are not settings", networked(structs.NetworkResource{Device: "eth0"})},
		{"network: device, cidr and ip are not settings", networked(structs.NetworkResource{IP: "10.0.0.1"})},
		{"network 1 is null", group(func(g *structs.TaskGroup) { g.Networks = []*structs.NetworkResource{nil} })},
		{"2 networks; a group has at most one", group(func(g *structs.TaskGroup) {
			g.Networks = []*structs.NetworkResource{{}, {}}
		})},
		{"network: 129 ports; at most 128", dynamic(many...)},
		{`network: port "": the label must be`, dynamic(structs.Port{})},
		{`port "a b": the label must be`, dynamic(structs.Port{Label: "a b"})},
		{"the label must be 1 to 64", dynamic(structs.Port{Label: strings.Repeat("a", 65)})},
		{"the label must be 1 to 64", dynamic(structs.Port{Label: strings.Repeat("a", 1<<20)})},
		{`port "a": port "a" has the same name in variables`, dynamic(structs.Port{Label: "a"}, structs.Port{Label: "a"})},
		{`port "a_b": port "a-b" has the same name`, dynamic(structs.Port{Label: "a-b"}, structs.Port{Label: "a_b"})},
		{`port "a": to 65536 must be at most 65535`, dynamic(structs.Port{Label: "a", To: structs.MaxPort + 1})},
		{`port "a": to -2 must be at least -1`, dynamic(structs.Port{Label: "a", To: -2})},
		{`port "a": Value 80: a dynamic port has none`, dynamic(structs.Port{Label: "a", Value: 80})},
		{`host_network "a b" must be`, dynamic(structs.Port{Label: "a", HostNetwork: "a b"})},
		{`port "a": static 0 must be at least 1`, static(structs.Port{Label: "a"})},
		{`port "a": static 65536 must be at most 65535`, static(structs.Port{Label: "a", Value: structs.MaxPort + 1})},
		{
			`port "b": static 80 is that of port "a" too`,
			static(structs.Port{Label: "a", Value: 80}, structs.Port{Label: "b", Value: 80, HostNetwork: "default"}),
		},
	} {
		err := Job(testJob(c.edit))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("a valid network: %v", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %.300v, want %s", err, c.want)
		case err != nil && len(err.Error()) > structs.MaxErrorText:
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
}
