package structs

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
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

func TestInjectConnect_AddsTheSidecar(t *testing.T) {
	j := sidecarJob()
	if err := j.Complete().Err(); err != nil {
		t.Fatal(err)
	}
	g := j.TaskGroups[0]
	p := g.Task("connect-proxy-front")
	if p == nil {
		t.Fatalf("the tasks are %+v", g.Tasks)
	}
	if p.Kind != "connect-proxy:front" || p.Driver != DriverConnect || p.Lifecycle == nil ||
		*p.Lifecycle != (TaskLifecycle{Hook: LifecyclePrestart, Sidecar: true}) ||
		p.ShutdownDelay != 5*time.Second || p.Resources.CPU != 250 || p.Resources.MemoryMB != 128 ||
		*p.LogConfig != (LogConfig{MaxFiles: 2, MaxFileSizeMB: 2}) || p.RestartPolicy == nil ||
		len(p.Constraints) > 0 || p.Config != nil {
		t.Errorf("got %+v", p)
	}
	want := Port{Label: "connect-proxy-front", To: -1, HostNetwork: DefaultHostNetwork}
	if !slices.Equal(g.Networks[0].DynamicPorts, []Port{want}) {
		t.Errorf("got ports %+v", g.Networks[0].DynamicPorts)
	}
	if g.Services[0].Connect.SidecarService.Port != "connect-proxy-front" {
		t.Errorf("the port of the sidecar is %q", g.Services[0].Connect.SidecarService.Port)
	}
}

func TestInjectConnect_ChangesTheTaskAsTheUserWants(t *testing.T) {
	j := sidecarJob()
	g := j.TaskGroups[0]
	g.Volumes = map[string]*VolumeRequest{"v": {Type: VolumeTypeHost, Source: "v"}}
	g.Services[0].Connect.SidecarTask = &SidecarTask{
		Name:          "proxy",
		User:          "nobody",
		Config:        map[string]any{"image": "envoy:1"},
		Env:           map[string]string{"A": "b"},
		Resources:     &Resources{MemoryMB: 64},
		Meta:          map[string]string{"c": "d"},
		KillTimeout:   new(time.Second),
		LogConfig:     &LogConfig{MaxFileSizeMB: 5},
		ShutdownDelay: new(time.Duration(0)),
		KillSignal:    "SIGINT",
		VolumeMounts:  []*VolumeMount{{Volume: "v", Destination: "/v"}},
	}
	g.Networks[0].Mode = "cni/x"
	j.Canonicalize()
	j.InjectConnect()
	p := g.Task("proxy")
	args, _ := p.Config["args"].([]any)
	if p.Driver != "docker" || p.Config["image"] != "envoy:1" || len(args) == 0 ||
		p.Config["network_mode"] != nil || p.User != "nobody" ||
		p.Env["A"] != "b" || p.Meta["c"] != "d" || p.Resources.CPU != 250 ||
		p.Resources.MemoryMB != 64 || p.KillTimeout != time.Second || p.ShutdownDelay != 0 ||
		*p.LogConfig != (LogConfig{MaxFiles: 2, MaxFileSizeMB: 5}) || p.KillSignal != "SIGINT" ||
		len(p.VolumeMounts) != 1 {
		t.Errorf("got %+v", p)
	}
}

// TestInjectConnect_ChoosesTheUserOfAContainer holds that Envoy reads its configuration, which belongs to the
// user of its task.
func TestInjectConnect_ChoosesTheUserOfAContainer(t *testing.T) {
	image := map[string]any{"image": "envoy:1"}
	for name, c := range map[string]struct {
		task *SidecarTask
		want string
	}{
		"without an image":  {nil, ""},
		"another driver":    {&SidecarTask{Driver: "exec"}, ""},
		"an image":          {&SidecarTask{Config: image}, "101:101"},
		"the driver's name": {&SidecarTask{Driver: "docker", Config: image}, "101:101"},
		"a user":            {&SidecarTask{User: "envoy", Config: image}, "envoy"},
		"root":              {&SidecarTask{User: "root", Config: image}, "root"},
	} {
		j := sidecarJob()
		j.TaskGroups[0].Services[0].Connect.SidecarTask = c.task
		j.Canonicalize()
		j.InjectConnect()
		p := j.TaskGroups[0].Task("connect-proxy-front")
		if p == nil || p.User != c.want {
			t.Errorf("%s: got %+v, want the user %q", name, p, c.want)
		}
	}
}

func TestInjectConnect_MarksTheNativeTask(t *testing.T) {
	j := sidecarJob()
	s := j.TaskGroups[0].Services[0]
	s.Connect = &Connect{Native: true}
	if err := j.Complete().Err(); err != nil {
		t.Fatal(err)
	}
	if kind := j.TaskGroups[0].Tasks[0].Kind; kind != "connect-native:front" || s.TaskName != "server" {
		t.Errorf("the kind is %q, the task of the service %q", kind, s.TaskName)
	}
}

func TestInjectConnect_AddsGateways(t *testing.T) {
	for name, c := range map[string]struct {
		gateway *Gateway
		ports   []string // beside wan
		binds   string   // in a bridge
	}{
		"connect-ingress-gate": {
			&Gateway{Ingress: oneIngress()}, nil, `{"web":{"Address":"0.0.0.0","Port":8080}}`,
		},
		"connect-terminating-gate": {
			&Gateway{Terminating: oneTerminating()}, []string{"connect-terminating-gate"},
			`{"default":{"Address":"0.0.0.0","Port":-1}}`,
		},
		"connect-mesh-gate": {
			&Gateway{Mesh: &GatewayMesh{}}, []string{"connect-mesh-gate-lan"},
			`{"lan":{"Address":"0.0.0.0","Port":-1},"wan":{"Address":"0.0.0.0","Port":-1}}`,
		},
	} {
		for _, mode := range []string{NetworkModeBridge, NetworkModeHost} {
			j := gatewayJob(mode, c.gateway)
			g := j.TaskGroups[0]
			if c.gateway.Mesh != nil {
				g.Services[0].PortLabel = "wan"
			}
			c.gateway.Proxy = &GatewayProxy{ConnectTimeout: new(time.Second)}
			if err := j.Complete().Err(); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			p := g.Task(name)
			if p == nil || p.Lifecycle != nil || !p.Kind.IsGateway() || p.Driver != DriverConnect ||
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
			if mode == NetworkModeHost {
				want = "null"
			}
			if string(binds) != want || c.gateway.Proxy.EnvoyGatewayNoDefaultBind != (mode == NetworkModeBridge) {
				t.Errorf("%s with %s: got %s", name, mode, binds)
			}
		}
	}
}

// TestInjectConnect_AsksForEnvoy has the settings of which Consul's own proxy knows nothing.
func TestInjectConnect_AsksForEnvoy(t *testing.T) {
	for name, edit := range map[string]func(*ConnectProxy){
		"expose": func(p *ConnectProxy) {
			p.Expose = &ConnectExpose{Paths: []*ConnectExposePath{{Path: "/", LocalPathPort: 1, ListenerPort: "x"}}}
		},
		"mesh_gateway": func(p *ConnectProxy) {
			p.Upstreams[0].MeshGateway = &ConnectMeshGateway{Mode: "local"}
		},
		"datacenter":             func(p *ConnectProxy) { p.Upstreams[0].Datacenter = "x" },
		"local_bind_socket_path": func(p *ConnectProxy) { p.Upstreams[0].LocalBindSocketPath = "/x" },
		"an address of IPv6":     func(p *ConnectProxy) { p.Upstreams[0].LocalBindAddress = "::1" },
		"a name with a dot":      func(p *ConnectProxy) { p.Upstreams[0].DestinationName = "a.b" },
		"two ports": func(p *ConnectProxy) {
			p.Upstreams = append(p.Upstreams, &ConnectUpstream{DestinationName: "api", LocalBindPort: 2})
		},
		"destination_peer": func(p *ConnectProxy) { p.Upstreams[0].DestinationPeer = "x" },
	} {
		j := sidecarJob()
		g := j.TaskGroups[0]
		edit(g.Services[0].Connect.SidecarService.Proxy)
		j.InjectConnect()
		p := g.Task("connect-proxy-front")
		want := Constraint{LTarget: "${attr.driver.connect.proxy}", RTarget: "envoy", Operand: "="}
		if len(p.Constraints) != 1 || *p.Constraints[0] != want {
			t.Errorf("%s: got %+v", name, p.Constraints)
		}
	}
}

func TestInjectConnect_ExposesChecks(t *testing.T) {
	j := sidecarJob()
	g := j.TaskGroups[0]
	s := g.Services[0]
	for _, path := range []string{"/up", "/ready"} {
		s.Checks = append(s.Checks, &ServiceCheck{
			Type: CheckHTTP, Path: path, Expose: true, Interval: time.Second, Timeout: time.Second,
		})
	}
	j.Canonicalize()
	if err := j.Complete().Err(); err != nil {
		t.Fatal(err)
	}
	paths := s.Connect.SidecarService.Proxy.Expose.Paths
	for i, c := range s.Checks {
		want := ConnectExposePath{Path: c.Path, Protocol: "http", LocalPathPort: 8080, ListenerPort: c.PortLabel}
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
	exposed.TaskGroups[0].Services[0].Checks = []*ServiceCheck{{
		Type: CheckHTTP, Path: "/", Expose: true, Interval: time.Second, Timeout: time.Second,
	}}
	custom := sidecarJob()
	custom.TaskGroups[0].Services[0].Connect.SidecarTask = &SidecarTask{
		Name:   "p",
		Config: map[string]any{"image": "envoy:1"},
	}
	native := sidecarJob()
	native.TaskGroups[0].Services[0].Connect = &Connect{Native: true}
	for _, j := range []*Job{
		sidecarJob(), exposed, custom, native,
		gatewayJob(NetworkModeBridge, &Gateway{Ingress: oneIngress()}),
		gatewayJob(NetworkModeBridge, &Gateway{Terminating: oneTerminating()}),
	} {
		if j.TaskGroups[0].Networks[0].Mode == NetworkModeBridge && j == custom {
			j.TaskGroups[0].Networks[0].Mode = "cni/x"
		}
		j.Canonicalize()
		j.InjectConnect()
		stored, _ := json.Marshal(j)
		again := &Job{}
		if err := json.Unmarshal(stored, again); err != nil {
			t.Fatal(err)
		}
		again.Canonicalize()
		again.InjectConnect()
		text, _ := json.Marshal(again)
		if string(text) != string(stored) {
			t.Errorf("first\n%s\nthen\n%s", stored, text)
		}
	}
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
