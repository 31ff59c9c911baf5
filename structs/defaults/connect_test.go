package defaults

import (
	"berth/structs"
	"encoding/json"
	"testing"
)

// sidecarJob returns a job with a service that has a sidecar.
func sidecarJob() *structs.Job {
	j := &structs.Job{
		ID: "shop",
		TaskGroups: []*structs.TaskGroup{{
			Name:     "web",
			Count:    1,
			Networks: []*structs.NetworkResource{{Mode: structs.NetworkModeBridge}},
			Tasks:    []*structs.Task{{Name: "server", Driver: "exec"}},
			Services: []*structs.Service{{
				Name:      "front",
				PortLabel: "8080",
				Connect: &structs.Connect{SidecarService: &structs.SidecarService{Proxy: &structs.ConnectProxy{
					Upstreams: []*structs.ConnectUpstream{{DestinationName: "api", LocalBindPort: 9001}},
				}}},
			}},
		}},
	}
	Canonicalize(j)
	return j
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
		p := &structs.ConnectProxy{}
		if err := json.Unmarshal([]byte(text), p); err != nil {
			t.Fatal(err)
		}
		canonicalizeProxy(p)
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
	Canonicalize(j)
	if s.Name != "shop-web-default" {
		t.Errorf("got %q", s.Name)
	}
}
