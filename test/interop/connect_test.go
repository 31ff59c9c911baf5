package interop

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	public "github.com/hashicorp/nomad/api"

	"berth/api/apitest"
	"berth/endpoints/injection"
	"berth/structs"
	"berth/structs/defaults"
)

// sidecarOfClient has each field of a sidecar that berth has.
func sidecarOfClient() *public.ConsulConnect {
	return &public.ConsulConnect{
		SidecarService: &public.ConsulSidecarService{
			Tags: []string{"a"},
			Port: "mesh",
			Proxy: &public.ConsulProxy{
				LocalServiceAddress: "127.0.0.2",
				LocalServicePort:    9002,
				Expose: &public.ConsulExposeConfig{Paths: []*public.ConsulExposePath{{
					Path: "/up", Protocol: "http2", LocalPathPort: 9002, ListenerPort: "http",
				}}},
				Upstreams: []*public.ConsulUpstream{
					{
						DestinationName: "api", DestinationPeer: "p", DestinationType: "service", LocalBindPort: 8080,
						Datacenter: "dc2", LocalBindAddress: "127.0.0.3",
						MeshGateway: &public.ConsulMeshGateway{Mode: "local"}, Config: map[string]any{"a": "b"},
					},
					{DestinationName: "db", LocalBindSocketPath: "/alloc/db", LocalBindSocketMode: "0600"},
				},
				Config: map[string]any{"c": "d"},
			},
			DisableDefaultTCPCheck: true,
			Meta:                   map[string]string{"k": "v"},
		},
		SidecarTask: &public.SidecarTask{
			Name: "proxy", Driver: "exec", User: "nobody", Config: map[string]any{"command": "/proxy"},
			Env: map[string]string{"A": "b"}, Meta: map[string]string{"c": "d"}, KillSignal: "SIGINT",
			Resources:     &public.Resources{CPU: new(50), MemoryMB: new(60)},
			KillTimeout:   new(4 * time.Second),
			ShutdownDelay: new(3 * time.Second),
			LogConfig:     &public.LogConfig{MaxFiles: new(3), MaxFileSizeMB: new(4)},
		},
	}
}

func gatewayOfClient(edit func(*public.ConsulGateway)) *public.ConsulConnect {
	g := &public.ConsulGateway{Proxy: &public.ConsulGatewayProxy{
		ConnectTimeout:            new(3 * time.Second),
		EnvoyGatewayNoDefaultBind: true,
		EnvoyGatewayBindAddresses: map[string]*public.ConsulGatewayBindAddress{
			"a": {Name: "a", Address: "0.0.0.0", Port: 8080},
		},
		EnvoyDNSDiscoveryType: "STRICT_DNS",
		Config:                map[string]any{"a": "b"},
	}}
	edit(g)
	return &public.ConsulConnect{Gateway: g}
}

func servicesOfClient() []*public.Service {
	ingress := func(g *public.ConsulGateway) {
		g.Ingress = &public.ConsulIngressConfigEntry{
			TLS: &public.ConsulGatewayTLSConfig{Enabled: true, TLSMinVersion: "TLSv1_2", CipherSuites: []string{"x"}},
			Listeners: []*public.ConsulIngressListener{{
				Port: 8080, Protocol: "http",
				Services: []*public.ConsulIngressService{{Name: "one", Hosts: []string{"one.example.com"}}},
			}},
		}
	}
	terminating := func(g *public.ConsulGateway) {
		g.Terminating = &public.ConsulTerminatingConfigEntry{Services: []*public.ConsulLinkedService{{
			Name: "billing", CAFile: "/ca", CertFile: "/cert", KeyFile: "/key", SNI: "x",
		}}}
	}
	mesh := func(g *public.ConsulGateway) { g.Mesh = &public.ConsulMeshConfigEntry{} }
	check := public.ServiceCheck{
		Name: "up", Type: "http", Path: "/up", Expose: true, Interval: time.Second, Timeout: time.Second,
	}
	return []*public.Service{
		{Name: "sidecar", PortLabel: "9002", Connect: sidecarOfClient(), Checks: []public.ServiceCheck{check}},
		{Name: "native", TaskName: "plugin", Connect: &public.ConsulConnect{Native: true}},
		{Name: "ingress", Connect: gatewayOfClient(ingress)},
		{Name: "terminating", Connect: gatewayOfClient(terminating)},
		{Name: "mesh", PortLabel: "http", Connect: gatewayOfClient(mesh)},
	}
}

// TestClient_SendsAndReadsConnect writes back what the client has read.
func TestClient_SendsAndReadsConnect(t *testing.T) {
	for name, canonicalize := range map[string]bool{
		"as built":                         false,
		"with the defaults of the dialect": true,
	} {
		t.Run(name, func(t *testing.T) {
			c, caller := clientOfFakeServers(t)
			var got *structs.Job
			apitest.On(caller, structs.JobRegister, recordJob(&got))
			job := fullJob()
			job.ID = new("mesh")
			g := job.TaskGroups[0]
			g.Networks = []*public.NetworkResource{{Mode: "bridge", DynamicPorts: []public.Port{{Label: "http"}}}}
			g.Services = servicesOfClient()
			g.Services[1].TaskName = g.Tasks[0].Name
			if canonicalize {
				job.Canonicalize()
			}
			sent, err := json.Marshal(g.Services)
			if err != nil {
				t.Fatal(err)
			}
			var stored string
			for range 2 {
				if _, _, err := c.Jobs().Register(job, nil); err != nil {
					t.Fatal(err)
				}
				defaults.Canonicalize(got)
				if err := injection.AddSidecars(got).Err(); err != nil {
					t.Fatal(err)
				}
				text, err := json.Marshal(got)
				if err != nil {
					t.Fatal(err)
				}
				if stored != "" && stored != string(text) {
					t.Errorf("first\n%s\nthen\n%s", stored, text)
				}
				stored = string(text)
				apitest.Answer(caller, structs.JobGet, structs.JobGetResponse{Job: got})
				job, _, err = c.Jobs().Info("mesh", nil)
				if err != nil {
					t.Fatal(err)
				}
			}
			read := job.TaskGroups[0]
			proxy := read.Tasks[1]
			if len(read.Tasks) != 1+4 || proxy.Kind != "connect-proxy:sidecar" || proxy.Name != "proxy" {
				t.Errorf("the client reads %d tasks, %+v", len(read.Tasks), proxy)
			}
			checkConnect(t, sent, read.Services)
		})
	}
}

// checkConnect compares each value that the client sent with those that it reads.
func checkConnect(t *testing.T, sent []byte, read []*public.Service) {
	t.Helper()
	text, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	var want, has []struct{ Connect map[string]any }
	for src, into := range map[*[]byte]any{&sent: &want, &text: &has} {
		if err := json.Unmarshal(*src, into); err != nil {
			t.Fatal(err)
		}
	}
	for i := range want {
		checkWithin(t, "Connect", want[i].Connect, has[i].Connect)
	}
}

// checkWithin checks that a value has all that another one has. Names of addresses are the keys of their map.
func checkWithin(t *testing.T, path string, want, has any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		m, _ := has.(map[string]any)
		for key, value := range want {
			if !strings.Contains(path, "EnvoyGatewayBindAddresses.") || key != "Name" {
				checkWithin(t, path+"."+key, value, m[key])
			}
		}
	case []any:
		list, _ := has.([]any)
		for i, value := range want {
			if i >= len(list) {
				t.Errorf("%s has %d items", path, len(list))
				return
			}
			checkWithin(t, path+"[]", value, list[i])
		}
	case nil:
	default:
		if want != has && want != float64(0) && want != false && want != "" {
			t.Errorf("%s is %v, want %v", path, has, want)
		}
	}
}

// TestClient_LearnsWhyConnectIsRejected has fields that berth does not have.
func TestClient_LearnsWhyConnectIsRejected(t *testing.T) {
	c, _ := clientOfFakeServers(t)
	for want, edit := range map[string]func(*public.ConsulConnect){
		"Proxy.TransparentProxy": func(x *public.ConsulConnect) {
			x.SidecarService.Proxy.TransparentProxy = &public.ConsulTransparentProxy{UID: "101"}
		},
		"Upstreams[0].DestinationPartition": func(x *public.ConsulConnect) {
			x.SidecarService.Proxy.Upstreams[0].DestinationPartition = "a"
		},
		"SidecarTask.Identities": func(x *public.ConsulConnect) {
			x.SidecarTask.Identities = []*public.WorkloadIdentity{{Name: "a"}}
		},
	} {
		job := fullJob()
		job.TaskGroups[0].Services = []*public.Service{{Name: "s", Connect: sidecarOfClient()}}
		edit(job.TaskGroups[0].Services[0].Connect)
		_, _, err := c.Jobs().Register(job, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

// TestClient_LearnsThatNamespacesOfConsulHaveNoEffect registers the job that the client has read with no
// warning. The servers, which are fakes here, warn of the namespaces of groups and tasks.
func TestClient_LearnsThatNamespacesOfConsulHaveNoEffect(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	var got *structs.Job
	apitest.On(caller, structs.JobRegister, recordJob(&got))
	job := fullJob()
	job.ConsulNamespace = new("apple")
	job.TaskGroups[0].Consul = &public.Consul{Namespace: "banana"}
	job.TaskGroups[0].Tasks[0].Consul = &public.Consul{Namespace: "cherry"}
	job.Canonicalize()
	for _, want := range []string{"apple", ""} {
		answer, _, err := c.Jobs().Register(job, nil)
		if err != nil {
			t.Fatal(err)
		}
		checkNamespaces(t, answer.Warnings, want)
		if want != "" {
			group := got.TaskGroups[0]
			if group.Consul.Namespace != "banana" || group.Tasks[0].Consul.Namespace != "cherry" {
				t.Errorf("the servers got %+v, %+v", group.Consul, group.Tasks[0].Consul)
			}
		}
		validation, _, err := c.Jobs().Validate(job, nil)
		if err != nil {
			t.Fatal(err)
		}
		checkNamespaces(t, validation.Warnings, want)
		defaults.Canonicalize(got)
		apitest.Answer(caller, structs.JobGet, structs.JobGetResponse{Job: got})
		job, _, err = c.Jobs().Info("web/one", nil)
		if err != nil {
			t.Fatal(err)
		}
		job.Canonicalize()
	}
}

// checkNamespaces checks that there is a warning for each of the namespaces of Consul, and no other.
func checkNamespaces(t *testing.T, warnings, want string) {
	t.Helper()
	names := strings.Fields(want)
	for _, name := range names {
		if !strings.Contains(warnings, `Namespace "`+name+`" has no effect`) {
			t.Errorf("no warning of %s in %q", name, warnings)
		}
	}
	if got := strings.Count(warnings, "has no effect"); got != len(names) {
		t.Errorf("got %d warnings, want %d: %s", got, len(names), warnings)
	}
}
