package structs

import (
	"encoding/json"
	"slices"
	"testing"
)

// sidecarJob returns a job with a service that has a sidecar.
func sidecarJob() *Job {
	j := &Job{
		ID: "shop",
		TaskGroups: []*TaskGroup{{
			Name:     "web",
			Count:    1,
			Networks: []*NetworkResource{{Mode: NetworkModeBridge}},
			Tasks:    []*Task{{Name: "server", Driver: "exec"}},
			Services: []*Service{{
				Name:      "front",
				PortLabel: "8080",
				Connect: &Connect{SidecarService: &SidecarService{Proxy: &ConnectProxy{
					Upstreams: []*ConnectUpstream{{DestinationName: "api", LocalBindPort: 9001}},
				}}},
			}},
		}},
	}
	j.Canonicalize()
	return j
}

// gatewayJob returns a job with a gateway.
func gatewayJob(mode string, g *Gateway) *Job {
	j := &Job{
		ID: "edge",
		TaskGroups: []*TaskGroup{{
			Name:     "gw",
			Count:    1,
			Networks: []*NetworkResource{{Mode: mode, DynamicPorts: []Port{{Label: "wan"}}}},
			Services: []*Service{{Name: "gate", Connect: &Connect{Gateway: g}}},
		}},
	}
	j.Canonicalize()
	return j
}

func oneIngress() *GatewayIngress {
	return &GatewayIngress{Listeners: []*GatewayListener{{
		Port:     8080,
		Services: []*GatewayIngressService{{Name: "web"}},
	}}}
}

func oneTerminating() *GatewayTerminating {
	return &GatewayTerminating{Services: []*GatewayLinkedService{{Name: "billing"}}}
}

// TestCanonicalize_ReadsFormerNamesOfExpose has those of older clients.
func TestCanonicalize_ReadsFormerNamesOfExpose(t *testing.T) {
	const paths = `[{"Path": "/up", "LocalPathPort": 80, "ListenerPort": "health"}]`
	for _, text := range []string{
		`{"Expose": {"Paths": ` + paths + `}}`,
		`{"Expose": {"Path": ` + paths + `}}`,
		`{"ExposeConfig": {"Path": ` + paths + `}}`,
		`{"ExposeConfig": {"Paths": ` + paths + `}}`,
	} {
		p := &ConnectProxy{}
		if err := json.Unmarshal([]byte(text), p); err != nil {
			t.Fatal(err)
		}
		p.canonicalize()
		if p.ExposeConfig != nil || p.Expose == nil || p.Expose.Path != nil || len(p.Expose.Paths) != 1 ||
			p.Expose.Paths[0].Protocol != "http" {
			t.Errorf("%s: got %+v", text, p.Expose)
		}
	}
}

func TestCanonicalize_KnowsTheNameOfAServiceOfTheMesh(t *testing.T) {
	j := sidecarJob()
	s := j.TaskGroups[0].Services[0]
	s.Name = "${NOMAD_JOB_NAME}-${env.BERTH_GROUP_NAME}-${NOMAD_NAMESPACE}"
	j.Canonicalize()
	if s.Name != "shop-web-default" {
		t.Errorf("got %q", s.Name)
	}
}

func TestWarnings_NameUnreachablePorts(t *testing.T) {
	j := sidecarJob()
	s := j.TaskGroups[0].Services[0]
	s.Checks = []*ServiceCheck{
		{Type: CheckTCP},
		{Type: CheckHTTP, Expose: true},
		{Type: CheckScript},
		{Type: CheckTCP, PortLabel: "label"},
	}
	edge := gatewayJob(NetworkModeBridge, &Gateway{Ingress: oneIngress()})
	got := append(j.Warnings(), edge.Warnings()...)
	want := []string{
		`job "shop": group "web": service 1: check 1: it does not reach port 8080 in the network namespace of ` +
			`the group; use expose, or a port of the group`,
		`job "edge": group "gw": service 1: connect: gateway: ingress: listener 1: nothing reaches its port ` +
			`8080, because no port of the group has to = 8080`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	edge.TaskGroups[0].Networks[0].DynamicPorts[0].To = 8080
	if got := edge.Warnings(); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}
