package report

import (
	"strings"
	"testing"

	"berth/structs"
)

func TestServiceReport_NamesTheFault(t *testing.T) {
	for want, edit := range map[string]func(*structs.AllocClientUpdate){
		"":                  func(*structs.AllocClientUpdate) {},
		"a service is null": func(u *structs.AllocClientUpdate) { u.Services[0] = nil },
		`service "web": the ID "i" is there twice`: func(u *structs.AllocClientUpdate) {
			u.Services = append(u.Services, u.Services[0])
		},
		`service "a b": the name is not that`: func(u *structs.AllocClientUpdate) { u.Services[0].ServiceName = "a b" },
		"ID has 1021 bytes":                   func(u *structs.AllocClientUpdate) { u.Services[0].ID = strings.Repeat("x", 1021) },
		"Address has 256 bytes":               func(u *structs.AllocClientUpdate) { u.Services[0].Address = strings.Repeat("x", 256) },
		"Port -1 must be at least 0":          func(u *structs.AllocClientUpdate) { u.Services[0].Port = -1 },
		"Port 65536 must be at most":          func(u *structs.AllocClientUpdate) { u.Services[0].Port = 65536 },
		`Status "fine" must be`:               func(u *structs.AllocClientUpdate) { u.Services[0].Status = "fine" },
		"65 tags; at most 64":                 func(u *structs.AllocClientUpdate) { u.Services[0].Tags = make([]string, 65) },
		"a tag has 4097 bytes": func(u *structs.AllocClientUpdate) {
			u.Services[0].Tags = []string{strings.Repeat("x", structs.MaxText+1)}
		},
		`meta: key "" must not`: func(u *structs.AllocClientUpdate) { u.Services[0].Meta = map[string]string{"": ""} },
		"65 services; at most 64": func(u *structs.AllocClientUpdate) {
			u.Services = make([]*structs.ServiceInstance, structs.MaxServices+1)
		},
		"services: all tags and meta has 40002 bytes": func(u *structs.AllocClientUpdate) {
			u.Services[0].Meta = map[string]string{"k": strings.Repeat("x", 40_000)}
		},
	} {
		u := &structs.AllocClientUpdate{
			ID: "a",
			Services: []*structs.ServiceInstance{{
				ID: "i", ServiceName: "web", Address: "10.0.0.1", Port: 80, Status: structs.CheckPassing, Tags: []string{"x"},
			}},
		}
		edit(u)
		err := AllocUpdate(u)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %.300v, want %q", err, want)
		}
	}
}
