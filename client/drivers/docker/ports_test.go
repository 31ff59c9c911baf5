package docker

import (
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"

	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/structs"
)

// published returns the ports of a container with the given network and ports, as "port/protocol host:port".
func published(mode string, ports ...string) (string, error) {
	cfg := &driver.TaskConfig{Ports: []structs.AllocatedPort{
		{Label: "http", Value: 20000, To: 80, HostIP: "10.0.0.1"},
		{Label: "admin", Value: 20001, HostIP: "10.0.0.1"},
		{Label: "back", Value: 20002, To: 80, HostIP: "fd00::1"},
	}}
	c := &container.Config{}
	h := &container.HostConfig{NetworkMode: container.NetworkMode(mode)}
	err := addPorts(c, h, cfg, &taskconfig.Task{NetworkMode: mode, Ports: ports})
	var all []string
	for inside, bindings := range h.PortBindings {
		if _, exposed := c.ExposedPorts[inside]; !exposed {
			all = append(all, "not exposed: "+inside.String())
		}
		for _, b := range bindings {
			all = append(all, inside.String()+" "+b.HostIP.String()+":"+b.HostPort)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", "), err
}

func TestAddPorts_PublishesThePortsThatTheTaskNames(t *testing.T) {
	const admin = "20001/tcp 10.0.0.1:20001, 20001/udp 10.0.0.1:20001"
	const both = "80/tcp 10.0.0.1:20000, 80/tcp fd00::1:20002, 80/udp 10.0.0.1:20000, 80/udp fd00::1:20002"
	for _, c := range []struct {
		mode  string
		ports []string
		want  string
	}{
		{"", nil, ""},
		{"", []string{"admin"}, admin},
		{"bridge", []string{"admin"}, admin},
		{"of-the-daemon", []string{"admin"}, admin},
		{"", []string{"http", "back"}, both},
		{"host", []string{"http", "back"}, ""},
		{"none", nil, ""},
		{"container:a", nil, ""},
	} {
		got, err := published(c.mode, c.ports...)
		if err != nil || got != c.want {
			t.Errorf("network %q, ports %q: got %s, %v; want %s", c.mode, c.ports, got, err, c.want)
		}
	}
}

func TestAddPorts_RejectsWhatItCannotPublish(t *testing.T) {
	const known = `config.ports: "db": expected a port of the group's network: http, admin, back`
	for mode, c := range map[string]struct{ port, want string }{
		"bridge":      {"db", known},
		"host":        {"db", known},
		"none":        {"http", `config.ports: a container with network_mode "none" has no ports`},
		"container:a": {"http", `config.ports: a container with network_mode "container:a" has no ports`},
	} {
		_, err := published(mode, c.port)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("network %q: got %v, want %s", mode, err, c.want)
		}
	}
}
