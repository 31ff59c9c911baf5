package injection

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/defaults"
)

func TestInject_AddsTheSidecar(t *testing.T) {
	j := sidecarJob()
	if err := AddSidecars(j).Err(); err != nil {
		t.Fatal(err)
	}
	g := j.TaskGroups[0]
	p := g.Task("connect-proxy-front")
	if p == nil {
		t.Fatalf("the tasks are %+v", g.Tasks)
	}
	if p.Kind != "connect-proxy:front" || p.Driver != driverConnect || p.Lifecycle == nil ||
		*p.Lifecycle != (structs.TaskLifecycle{Hook: structs.LifecyclePrestart, Sidecar: true}) ||
		p.ShutdownDelay != 5*time.Second || p.Resources.CPU != 250 || p.Resources.MemoryMB != 128 ||
		*p.LogConfig != (structs.LogConfig{MaxFiles: 2, MaxFileSizeMB: 2}) || p.RestartPolicy == nil ||
		len(p.Constraints) > 0 || p.Config != nil {
		t.Errorf("got %+v", p)
	}
	want := structs.Port{Label: "connect-proxy-front", To: -1, HostNetwork: structs.DefaultHostNetwork}
	if !slices.Equal(g.Networks[0].DynamicPorts, []structs.Port{want}) {
		t.Errorf("got ports %+v", g.Networks[0].DynamicPorts)
	}
	if g.Services[0].Connect.SidecarService.Port != "connect-proxy-front" {
		t.Errorf("the port of the sidecar is %q", g.Services[0].Connect.SidecarService.Port)
	}
}

func TestInject_ChangesTheTaskAsTheUserWants(t *testing.T) {
	j := sidecarJob()
	g := j.TaskGroups[0]
	g.Volumes = map[string]*structs.VolumeRequest{"v": {Type: structs.VolumeTypeHost, Source: "v"}}
	g.Services[0].Connect.SidecarTask = &structs.SidecarTask{
		Name:          "proxy",
		User:          "nobody",
		Config:        map[string]any{"image": "envoy:1"},
		Env:           map[string]string{"A": "b"},
		Resources:     &structs.Resources{MemoryMB: 64},
		Meta:          map[string]string{"c": "d"},
		KillTimeout:   new(time.Second),
		LogConfig:     &structs.LogConfig{MaxFileSizeMB: 5},
		ShutdownDelay: new(time.Duration(0)),
		KillSignal:    "SIGINT",
		VolumeMounts:  []*structs.VolumeMount{{Volume: "v", Destination: "/v"}},
	}
	g.Networks[0].Mode = "cni/x"
	defaults.Canonicalize(j)
	injectJob(j)
	p := g.Task("proxy")
	args, _ := p.Config["args"].([]any)
	if p.Driver != "docker" || p.Config["image"] != "envoy:1" || len(args) == 0 ||
		p.Config["network_mode"] != nil || p.User != "nobody" ||
		p.Env["A"] != "b" || p.Meta["c"] != "d" || p.Resources.CPU != 250 ||
		p.Resources.MemoryMB != 64 || p.KillTimeout != time.Second || p.ShutdownDelay != 0 ||
		*p.LogConfig != (structs.LogConfig{MaxFiles: 2, MaxFileSizeMB: 5}) || p.KillSignal != "SIGINT" ||
		len(p.VolumeMounts) != 1 {
		t.Errorf("got %+v", p)
	}
}

// TestInject_ChoosesTheUserOfAContainer holds that Envoy reads its configuration, which belongs to the
// user of its task.
func TestInject_ChoosesTheUserOfAContainer(t *testing.T) {
	image := map[string]any{"image": "envoy:1"}
	for name, c := range map[string]struct {
		task *structs.SidecarTask
		want string
	}{
		"without an image":  {nil, ""},
		"another driver":    {&structs.SidecarTask{Driver: "exec"}, ""},
		"an image":          {&structs.SidecarTask{Config: image}, "101:101"},
		"the driver's name": {&structs.SidecarTask{Driver: "docker", Config: image}, "101:101"},
		"a user":            {&structs.SidecarTask{User: "envoy", Config: image}, "envoy"},
		"root":              {&structs.SidecarTask{User: "root", Config: image}, "root"},
	} {
		j := sidecarJob()
		j.TaskGroups[0].Services[0].Connect.SidecarTask = c.task
		defaults.Canonicalize(j)
		injectJob(j)
		p := j.TaskGroups[0].Task("connect-proxy-front")
		if p == nil || p.User != c.want {
			t.Errorf("%s: got %+v, want the user %q", name, p, c.want)
		}
	}
}

func TestInject_MarksTheNativeTask(t *testing.T) {
	j := sidecarJob()
	s := j.TaskGroups[0].Services[0]
	s.Connect = &structs.Connect{Native: true}
	if err := AddSidecars(j).Err(); err != nil {
		t.Fatal(err)
	}
	if kind := j.TaskGroups[0].Tasks[0].Kind; kind != "connect-native:front" || s.TaskName != "server" {
		t.Errorf("the kind is %q, the task of the service %q", kind, s.TaskName)
	}
}

func TestInject_AddsGateways(t *testing.T) {
	for name, c := range map[string]struct {
		gateway *structs.Gateway
		ports   []string // beside wan
		binds   string   // in a bridge
	}{
		"connect-ingress-gate": {
			&structs.Gateway{Ingress: oneIngress()}, nil, `{"web":{"Address":"0.0.0.0","Port":8080}}`,
		},
		"connect-terminating-gate": {
			&structs.Gateway{Terminating: oneTerminating()}, []string{"connect-terminating-gate"},
			`{"default":{"Address":"0.0.0.0","Port":-1}}`,
		},
		"connect-mesh-gate": {
			&structs.Gateway{Mesh: &structs.GatewayMesh{}}, []string{"connect-mesh-gate-lan"},
			`{"lan":{"Address":"0.0.0.0","Port":-1},"wan":{"Address":"0.0.0.0","Port":-1}}`,
		},
	} {
		for _, mode := range []string{structs.NetworkModeBridge, structs.NetworkModeHost} {
			j := gatewayJob(mode, c.gateway)
			g := j.TaskGroups[0]
			if c.gateway.Mesh != nil {
				g.Services[0].PortLabel = "wan"
			}
			c.gateway.Proxy = &structs.GatewayProxy{ConnectTimeout: new(time.Second)}
			if err := AddSidecars(j).Err(); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			p := g.Task(name)
			if p == nil || p.Lifecycle != nil || !p.Kind.IsGateway() || p.Driver != driverConnect ||
				len(p.Constraints) != 1 || p.Constraints[0].LTarget != "${attr.driver.connect.proxy}" {
				t.Errorf("%s: got %+v", name, p)
			}
			var ports []string
			for _, port := range g.Networks[0].DynamicPorts[1:] {
				ports = append(ports, port.Label)
			}
			if !slices.Equal(ports, c.ports) {
				t.Errorf("%s: got ports %q", name, ports)
			}
			binds, _ := json.Marshal(c.gateway.Proxy.EnvoyGatewayBindAddresses)
			want := c.binds
			if mode == structs.NetworkModeHost {
				want = "null"
			}
			noDefault := mode == structs.NetworkModeBridge
			if string(binds) != want || c.gateway.Proxy.EnvoyGatewayNoDefaultBind != noDefault {
				t.Errorf("%s with %s: got %s", name, mode, binds)
			}
		}
	}
}

// TestInject_AsksForEnvoy has the settings of which Consul's own proxy knows nothing.
func TestInject_AsksForEnvoy(t *testing.T) {
	for name, edit := range map[string]func(*structs.ConnectProxy){
		"expose": func(p *structs.ConnectProxy) {
			p.Expose = &structs.ConnectExpose{Paths: []*structs.ConnectExposePath{{Path: "/", LocalPathPort: 1,
				ListenerPort: "x"}}}
		},
		"mesh_gateway": func(p *structs.ConnectProxy) {
			p.Upstreams[0].MeshGateway = &structs.ConnectMeshGateway{Mode: "local"}
		},
		"datacenter":             func(p *structs.ConnectProxy) { p.Upstreams[0].Datacenter = "x" },
		"local_bind_socket_path": func(p *structs.ConnectProxy) { p.Upstreams[0].LocalBindSocketPath = "/x" },
		"an address of IPv6":     func(p *structs.ConnectProxy) { p.Upstreams[0].LocalBindAddress = "::1" },
		"a name with a dot":      func(p *structs.ConnectProxy) { p.Upstreams[0].DestinationName = "a.b" },
		"two ports": func(p *structs.ConnectProxy) {
			p.Upstreams = append(p.Upstreams, &structs.ConnectUpstream{DestinationName: "api", LocalBindPort: 2})
		},
		"destination_peer": func(p *structs.ConnectProxy) { p.Upstreams[0].DestinationPeer = "x" },
	} {
		j := sidecarJob()
		g := j.TaskGroups[0]
		edit(g.Services[0].Connect.SidecarService.Proxy)
		injectJob(j)
		p := g.Task("connect-proxy-front")
		want := structs.Constraint{LTarget: "${attr.driver.connect.proxy}", RTarget: "envoy", Operand: "="}
		if len(p.Constraints) != 1 || *p.Constraints[0] != want {
			t.Errorf("%s: got %+v", name, p.Constraints)
		}
	}
}

func TestInject_ExposesChecks(t *testing.T) {
	j := sidecarJob()
	g := j.TaskGroups[0]
	s := g.Services[0]
	for _, path := range []string{"/up", "/ready"} {
		s.Checks = append(s.Checks, &structs.ServiceCheck{
			Type: structs.CheckHTTP, Path: path, Expose: true, Interval: time.Second, Timeout: time.Second,
		})
	}
	defaults.Canonicalize(j)
	if err := AddSidecars(j).Err(); err != nil {
		t.Fatal(err)
	}
	paths := s.Connect.SidecarService.Proxy.Expose.Paths
	for i, c := range s.Checks {
		want := structs.ConnectExposePath{
			Path:          c.Path,
			Protocol:      "http",
			LocalPathPort: 8080,
			ListenerPort:  c.PortLabel,
		}
		if *paths[i] != want || !strings.HasPrefix(c.PortLabel, "svc_front_ck_") || !g.HasPort(c.PortLabel) {
			t.Errorf("check %d: port %q, path %+v", i+1, c.PortLabel, paths[i])
		}
	}
	if s.Checks[0].PortLabel == s.Checks[1].PortLabel {
		t.Error("both checks have one port")
	}
}

// TestComplete_IsIdempotent registers again what a registration has stored, also after a way through JSON.
func TestComplete_IsIdempotent(t *testing.T) {
	exposed := sidecarJob()
	exposed.TaskGroups[0].Services[0].Checks = []*structs.ServiceCheck{{
		Type: structs.CheckHTTP, Path: "/", Expose: true, Interval: time.Second, Timeout: time.Second,
	}}
	custom := sidecarJob()
	custom.TaskGroups[0].Services[0].Connect.SidecarTask = &structs.SidecarTask{
		Name:   "p",
		Config: map[string]any{"image": "envoy:1"},
	}
	native := sidecarJob()
	native.TaskGroups[0].Services[0].Connect = &structs.Connect{Native: true}
	for _, j := range []*structs.Job{
		sidecarJob(), exposed, custom, native,
		gatewayJob(structs.NetworkModeBridge, &structs.Gateway{Ingress: oneIngress()}),
		gatewayJob(structs.NetworkModeBridge, &structs.Gateway{Terminating: oneTerminating()}),
	} {
		if j.TaskGroups[0].Networks[0].Mode == structs.NetworkModeBridge && j == custom {
			j.TaskGroups[0].Networks[0].Mode = "cni/x"
		}
		defaults.Canonicalize(j)
		injectJob(j)
		stored, _ := json.Marshal(j)
		again := &structs.Job{}
		if err := json.Unmarshal(stored, again); err != nil {
			t.Fatal(err)
		}
		defaults.Canonicalize(again)
		injectJob(again)
		text, _ := json.Marshal(again)
		if string(text) != string(stored) {
			t.Errorf("first\n%s\nthen\n%s", stored, text)
		}
	}
}

func TestComplete_AcceptsConnect(t *testing.T) {
	native := sidecarJob()
	native.TaskGroups[0].Networks = nil
	native.TaskGroups[0].Services[0].Connect = &structs.Connect{Native: true}
	mesh := gatewayJob(structs.NetworkModeHost, &structs.Gateway{Mesh: &structs.GatewayMesh{}})
	mesh.TaskGroups[0].Services[0].PortLabel = "wan"
	for _, j := range []*structs.Job{
		sidecarJob(),
		native,
		gatewayJob(structs.NetworkModeBridge, &structs.Gateway{Ingress: oneIngress()}),
		gatewayJob(structs.NetworkModeHost, &structs.Gateway{Terminating: oneTerminating()}),
		mesh,
	} {
		if err := AddSidecars(j).Err(); err != nil {
			t.Error(err)
		}
	}
}

func TestComplete_RejectsATaskWithTheNameOfTheSidecar(t *testing.T) {
	j := sidecarJob()
	g := j.TaskGroups[0]
	g.Tasks = append(g.Tasks, &structs.Task{Name: "connect-proxy-front", Driver: "exec"})
	defaults.Canonicalize(j)
	err := AddSidecars(j).Err()
	want := `task "connect-proxy-front" is there twice`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("want %s\n got %v", want, err)
	}
}
