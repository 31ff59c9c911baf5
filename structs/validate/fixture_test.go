package validate

import (
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/defaults"
)

func artifacts(list ...*structs.TaskArtifact) func(*structs.Job) {
	return func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Artifacts = list }
}

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
	defaults.Canonicalize(j)
	return j
}

// gatewayJob returns a job with a gateway.
func gatewayJob(mode string, g *structs.Gateway) *structs.Job {
	j := &structs.Job{
		ID: "edge",
		TaskGroups: []*structs.TaskGroup{{
			Name:     "gw",
			Count:    1,
			Networks: []*structs.NetworkResource{{Mode: mode, DynamicPorts: []structs.Port{{Label: "wan"}}}},
			Services: []*structs.Service{{Name: "gate", Connect: &structs.Connect{Gateway: g}}},
		}},
	}
	defaults.Canonicalize(j)
	return j
}

func oneIngress() *structs.GatewayIngress {
	return &structs.GatewayIngress{Listeners: []*structs.GatewayListener{{
		Port:     8080,
		Services: []*structs.GatewayIngressService{{Name: "web"}},
	}}}
}

func oneTerminating() *structs.GatewayTerminating {
	return &structs.GatewayTerminating{Services: []*structs.GatewayLinkedService{{Name: "billing"}}}
}

func demanding(edit func(*structs.RequestedDevice)) func(*structs.Job) {
	return task(func(t *structs.Task) {
		d := &structs.RequestedDevice{Name: "acme/gpu/x1", Count: 1}
		edit(d)
		t.Resources = &structs.Resources{Devices: []*structs.RequestedDevice{d}}
	})
}

func constrainedDevice(left, operand, right string) func(*structs.Job) {
	return demanding(func(d *structs.RequestedDevice) {
		d.Constraints = []*structs.Constraint{{LTarget: left, Operand: operand, RTarget: right}}
	})
}

func preferredDevice(a structs.Affinity) func(*structs.Job) {
	return demanding(func(d *structs.RequestedDevice) { d.Affinities = []*structs.Affinity{&a} })
}

func schedule(zone string, specs ...string) *structs.PeriodicConfig {
	p := &structs.PeriodicConfig{Enabled: true, Specs: specs, TimeZone: zone}
	return p
}

func batchJob(edit func(*structs.Job)) *structs.Job {
	j := &structs.Job{
		ID:   "j",
		Type: structs.JobBatch,
		TaskGroups: []*structs.TaskGroup{{
			Name:  "g",
			Tasks: []*structs.Task{{Name: "t", Driver: "exec"}},
		}},
	}
	edit(j)
	defaults.Canonicalize(j)
	return j
}

// networked gives the group of a job a network.
func networked(n structs.NetworkResource) func(*structs.Job) {
	return group(func(g *structs.TaskGroup) { g.Networks = []*structs.NetworkResource{&n} })
}

func dynamic(ports ...structs.Port) func(*structs.Job) {
	return networked(structs.NetworkResource{DynamicPorts: ports})
}

func static(ports ...structs.Port) func(*structs.Job) {
	return networked(structs.NetworkResource{ReservedPorts: ports})
}

func rackAffinity(edit func(*structs.Affinity)) []*structs.Affinity {
	a := &structs.Affinity{LTarget: "${meta.rack}", Operand: "=", RTarget: "r1", Weight: 50}
	edit(a)
	return []*structs.Affinity{a}
}

func rackSpread(edit func(*structs.Spread)) []*structs.Spread {
	s := &structs.Spread{
		Attribute:    "${meta.rack}",
		Weight:       50,
		SpreadTarget: []*structs.SpreadTarget{{Value: "r1", Percent: 60}, {Value: "r2", Percent: 40}},
	}
	edit(s)
	return []*structs.Spread{s}
}

// inConsul gives the group a service in Consul with edits.
func inConsul(edit func(*structs.Service)) func(*structs.Job) {
	return serving(func(s *structs.Service) { s.Provider = structs.ServiceProviderConsul }, edit)
}

func tagged(all map[string]string) func(*structs.Job) {
	return inConsul(func(s *structs.Service) { s.TaggedAddresses = all })
}

func weighted(w structs.ServiceWeights) func(*structs.Job) {
	return inConsul(func(s *structs.Service) { s.Weights = &w })
}

// inNetwork gives the group of a service a network of its own.
func inNetwork(mode string, edit func(*structs.Service)) func(*structs.Job) {
	return func(j *structs.Job) {
		serving(edit)(j)
		group(func(g *structs.TaskGroup) {
			g.Networks[0].Mode = mode
			if mode == structs.NetworkModeNone {
				g.Networks[0].DynamicPorts = nil
			}
		})(j)
	}
}

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

// checking gives the service a check with edits.
func checking(edits ...func(*structs.ServiceCheck)) func(*structs.Job) {
	return serving(func(s *structs.Service) {
		c := &structs.ServiceCheck{Type: structs.CheckHTTP, Path: "/", Interval: time.Second, Timeout: time.Second}
		for _, edit := range edits {
			edit(c)
		}
		s.Checks = []*structs.ServiceCheck{c}
	})
}

// ofType turns the check into one of another type.
func ofType(kind string) func(*structs.ServiceCheck) {
	return func(c *structs.ServiceCheck) {
		c.Type = kind
		c.Path = ""
	}
}

func withTemplate(x *structs.Template, edit func(*structs.Task)) *structs.Job {
	return testJob(func(j *structs.Job) {
		t := j.TaskGroups[0].Tasks[0]
		t.Templates = []*structs.Template{x}
		if edit != nil {
			edit(t)
		}
	})
}

// testJob is a valid service job with every block, made canonical.
func testJob(edits ...func(*structs.Job)) *structs.Job {
	j := &structs.Job{
		ID: "db",
		TaskGroups: []*structs.TaskGroup{{
			Name:  "g",
			Count: 1,
			Volumes: map[string]*structs.VolumeRequest{
				"data": {
					Type:           "csi",
					Source:         "db",
					AccessMode:     structs.CSISingleNodeWriter,
					AttachmentMode: structs.CSIFileSystem,
				},
			},
			Tasks: []*structs.Task{{
				Name:            "t",
				Driver:          "exec",
				VolumeMounts:    []*structs.VolumeMount{{Volume: "data", Destination: "/data"}},
				CSIPluginConfig: &structs.CSIPluginConfig{ID: "hostpath", Type: structs.CSIPluginNode},
			}},
		}},
	}
	for _, edit := range edits {
		edit(j)
	}
	defaults.Canonicalize(j)
	return j
}

func canaries(n int) *structs.UpdateStrategy {
	u := structs.DefaultUpdateStrategy()
	u.Canary = n
	return &u
}

// shareEach gives each index of a group a volume that several allocations may use.
func shareEach(g *structs.TaskGroup, count, canary int) {
	g.Count = count
	g.Update = canaries(canary)
	g.Volumes["data"].AccessMode = structs.CSIMultiNodeMultipleWriter
	g.Volumes["data"].PerAlloc = true
}

func group(edit func(*structs.TaskGroup)) func(*structs.Job) {
	return func(j *structs.Job) { edit(j.TaskGroups[0]) }
}

func task(edit func(*structs.Task)) func(*structs.Job) {
	return func(j *structs.Job) { edit(j.TaskGroups[0].Tasks[0]) }
}

func volume(edit func(*structs.VolumeRequest)) func(*structs.Job) {
	return func(j *structs.Job) { edit(j.TaskGroups[0].Volumes["data"]) }
}

func plugin(edit func(*structs.CSIPluginConfig)) func(*structs.Job) {
	return func(j *structs.Job) { edit(j.TaskGroups[0].Tasks[0].CSIPluginConfig) }
}

func mount(edit func(*structs.VolumeMount)) func(*structs.Job) {
	return func(j *structs.Job) { edit(j.TaskGroups[0].Tasks[0].VolumeMounts[0]) }
}

func constrained(c *structs.Constraint) func(*structs.Job) {
	return func(j *structs.Job) { j.Constraints = []*structs.Constraint{c} }
}

func lifecycle(l structs.TaskLifecycle) func(*structs.Job) {
	return task(func(t *structs.Task) { t.Lifecycle = &l })
}

// configOf returns a config with so many levels of maps and lists.
func configOf(levels int) map[string]any {
	var v any = "x"
	for n := range levels - 1 {
		if n%2 == 0 {
			v = []any{v}
		} else {
			v = map[string]any{"k": v}
		}
	}
	return map[string]any{"k": v}
}

func testVolume(edits ...func(*structs.CSIVolume)) *structs.CSIVolume {
	v := &structs.CSIVolume{
		ID: "db",
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID: "hostpath",
			RequestedCapabilities: []*structs.CSIVolumeCapability{{
				AttachmentMode: structs.CSIFileSystem,
				AccessMode:     structs.CSISingleNodeWriter,
			}},
		},
	}
	for _, edit := range edits {
		edit(v)
	}
	v.Canonicalize()
	return v
}

func required(segments map[string]string) func(*structs.CSIVolume) {
	return func(v *structs.CSIVolume) {
		v.RequestedTopologies = &structs.CSITopologyRequest{Required: []*structs.CSITopology{{Segments: segments}}}
	}
}

func rejectVolumes(t *testing.T, cases map[string]func(*structs.CSIVolume)) {
	t.Helper()
	for want, edit := range cases {
		err := Volume(testVolume(edit))
		switch {
		case strings.HasPrefix(want, "ok") && err != nil:
			t.Errorf("want valid, got %v", err)
		case !strings.HasPrefix(want, "ok") && (!structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("want %s\n got %v", want, err)
		case err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("a secret shows: %v", err)
		}
	}
}
