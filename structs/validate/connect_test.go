package validate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/defaults"
)

func TestWarnings_NameUnreachablePorts(t *testing.T) {
	j := sidecarJob()
	s := j.TaskGroups[0].Services[0]
	s.Checks = []*structs.ServiceCheck{
		{Type: structs.CheckTCP},
		{Type: structs.CheckHTTP, Expose: true},
		{Type: structs.CheckScript},
		{Type: structs.CheckTCP, PortLabel: "label"},
	}
	edge := gatewayJob(structs.NetworkModeBridge, &structs.Gateway{Ingress: oneIngress()})
	got := append(JobWarnings(j), JobWarnings(edge)...)
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
	if got := JobWarnings(edge); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

// TestJob_RejectsFaultsOfConnect has one fault in each job.
func TestJob_RejectsFaultsOfConnect(t *testing.T) {
	type part = func(*structs.TaskGroup, *structs.Service)
	upstream := func(edit func(*structs.ConnectUpstream)) part {
		return func(_ *structs.TaskGroup, s *structs.Service) { edit(s.Connect.SidecarService.Proxy.Upstreams[0]) }
	}
	gateway := func(edit func(*structs.TaskGroup, *structs.Service, *structs.Gateway)) part {
		return func(g *structs.TaskGroup, s *structs.Service) {
			x := &structs.Gateway{Ingress: oneIngress(), Proxy: &structs.GatewayProxy{}}
			x.Ingress.Listeners[0].Protocol = "tcp"
			s.Connect = &structs.Connect{Gateway: x}
			edit(g, s, x)
		}
	}
	listener := func(edit func(*structs.GatewayListener)) part {
		return gateway(func(_ *structs.TaskGroup, _ *structs.Service, x *structs.Gateway) {
			edit(x.Ingress.Listeners[0])
		})
	}
	linked := func(edit func(*structs.GatewayLinkedService)) part {
		return gateway(func(_ *structs.TaskGroup, _ *structs.Service, x *structs.Gateway) {
			x.Ingress = nil
			x.Terminating = oneTerminating()
			edit(x.Terminating.Services[0])
		})
	}
	path := func(edit func(*structs.ConnectExposePath)) part {
		return func(g *structs.TaskGroup, s *structs.Service) {
			g.Networks[0].DynamicPorts = []structs.Port{{Label: "health", HostNetwork: structs.DefaultHostNetwork}}
			x := &structs.ConnectExposePath{Path: "/up", Protocol: "http", LocalPathPort: 80, ListenerPort: "health"}
			edit(x)
			s.Connect.SidecarService.Proxy.Expose = &structs.ConnectExpose{Paths: []*structs.ConnectExposePath{x}}
		}
	}
	task := func(edit func(*structs.SidecarTask)) part {
		return func(_ *structs.TaskGroup, s *structs.Service) {
			s.Connect.SidecarTask = &structs.SidecarTask{}
			edit(s.Connect.SidecarTask)
		}
	}
	check := func(edit func(*structs.Service, *structs.ServiceCheck)) part {
		return func(_ *structs.TaskGroup, s *structs.Service) {
			c := &structs.ServiceCheck{
				Name: "c", Type: structs.CheckHTTP, Path: "/", Protocol: "http", Method: "GET", Expose: true,
				Interval: time.Second, Timeout: time.Second, OnUpdate: structs.OnUpdateIgnore,
			}
			s.Checks = []*structs.ServiceCheck{c}
			edit(s, c)
		}
	}
	for want, edit := range map[string]part{
		`service 1: connect: it is for services of groups`: func(g *structs.TaskGroup, s *structs.Service) {
			g.Tasks[0].Services = []*structs.Service{s}
			g.Services = nil
		},
		`connect: it is for services with provider = "consul"`: func(_ *structs.TaskGroup, s *structs.Service) {
			s.Provider = structs.ServiceProviderBerth
		},
		`connect: it has 0 of native`: func(_ *structs.TaskGroup, s *structs.Service) { s.Connect = &structs.Connect{} },
		`connect: it has 2 of native`: func(_ *structs.TaskGroup, s *structs.Service) { s.Connect.Native = true },
		`name "x${node.class}" has a placeholder`: func(_ *structs.TaskGroup, s *structs.Service) {
			s.Name = "x${node.class}"
		},
		`name has 45 bytes`: func(_ *structs.TaskGroup, s *structs.Service) { s.Name = strings.Repeat("a", 45) },
		`Consul takes no capital letters in "Front"`: func(_ *structs.TaskGroup, s *structs.Service) {
			s.Name = "Front"
		},
		`Consul takes no capital letters in the name of group "Web"`: func(g *structs.TaskGroup, _ *structs.Service) {
			g.Name = "Web"
		},
		`a proxy guards a network namespace`: func(g *structs.TaskGroup, _ *structs.Service) { g.Networks = nil },
		`native: the group has 2 tasks`: func(g *structs.TaskGroup, s *structs.Service) {
			s.Connect = &structs.Connect{Native: true}
			g.Tasks = append(g.Tasks, &structs.Task{Name: "b", Driver: "exec"})
		},
		`sidecar_task: a service with native = true has no proxy`: func(_ *structs.TaskGroup, s *structs.Service) {
			s.Connect = &structs.Connect{Native: true, SidecarTask: &structs.SidecarTask{}}
		},
		`another service of the group has the name "front" and connect`: func(g *structs.TaskGroup, s *structs.Service) {
			other := *s
			other.PortLabel = "8081"
			g.Services = append(g.Services, &other)
		},
		`native: task "server" is that of service "a", too`: func(g *structs.TaskGroup, _ *structs.Service) {
			g.Services = nil
			for _, name := range []string{"a", "b"} {
				s := &structs.Service{Name: name, TaskName: "server", Connect: &structs.Connect{Native: true}}
				g.Services = append(g.Services, s)
			}
			defaults.Canonicalize(&structs.Job{TaskGroups: []*structs.TaskGroup{g}})
		},
		`sidecar_service: the proxy leads to a port of the service`: func(_ *structs.TaskGroup, s *structs.Service) {
			s.PortLabel = ""
		},
		`sidecar_service: port "a b" must be the label`: func(_ *structs.TaskGroup, s *structs.Service) {
			s.Connect.SidecarService.Port = "a b"
		},
		`local_service_address "here" must be an IP address`: func(_ *structs.TaskGroup, s *structs.Service) {
			s.Connect.SidecarService.Proxy.LocalServiceAddress = "here"
		},
		`upstreams 2: local_bind_port: an upstream of service "front" has the address 127.0.0.1:9001`: func(
			_ *structs.TaskGroup, s *structs.Service) {
			p := s.Connect.SidecarService.Proxy
			p.Upstreams = append(p.Upstreams, &structs.ConnectUpstream{
				DestinationName:  "db",
				LocalBindPort:    9001,
				LocalBindAddress: "127.0.0.1",
			})
		},
		`129 upstreams; at most 128`: func(_ *structs.TaskGroup, s *structs.Service) {
			s.Connect.SidecarService.Proxy.Upstreams = make([]*structs.ConnectUpstream, 129)
		},
		`upstreams 1: destination_name is required`: upstream(func(u *structs.ConnectUpstream) { u.DestinationName = "" }),
		`destination_namespace "x": namespaces are`: upstream(func(u *structs.ConnectUpstream) {
			u.DestinationNamespace = "x"
		}),
		`destination_type "x" must be`: upstream(func(u *structs.ConnectUpstream) { u.DestinationType = "x" }),
		`local_bind_port 0 must be`:    upstream(func(u *structs.ConnectUpstream) { u.LocalBindPort = 0 }),
		`the upstream has a socket or a port`: upstream(func(u *structs.ConnectUpstream) {
			u.LocalBindSocketPath = "/s"
		}),
		`there is no local_bind_socket_path`: upstream(func(u *structs.ConnectUpstream) { u.LocalBindSocketMode = "0600" }),
		`local_bind_socket_path "s" must be an absolute path`: upstream(func(u *structs.ConnectUpstream) {
			u.LocalBindPort = 0
			u.LocalBindSocketPath = "s"
		}),
		`local_bind_socket_mode "9" must be octal`: upstream(func(u *structs.ConnectUpstream) {
			u.LocalBindPort = 0
			u.LocalBindSocketPath = "/s"
			u.LocalBindSocketMode = "9"
		}),
		`mesh_gateway: mode "x" must be`: upstream(func(u *structs.ConnectUpstream) {
			u.MeshGateway = &structs.ConnectMeshGateway{Mode: "x"}
		}),
		`expose: path 1: path "up" must begin with /`:    path(func(x *structs.ConnectExposePath) { x.Path = "up" }),
		`expose: path 1: protocol "tcp" must be`:         path(func(x *structs.ConnectExposePath) { x.Protocol = "tcp" }),
		`expose: path 1: local_path_port 0 must be`:      path(func(x *structs.ConnectExposePath) { x.LocalPathPort = 0 }),
		`expose: path 1: listener_port is required`:      path(func(x *structs.ConnectExposePath) { x.ListenerPort = "" }),
		`expose: path 1: listener_port "x": the network`: path(func(x *structs.ConnectExposePath) { x.ListenerPort = "x" }),
		`sidecar_task: kill_signal "X" is not a signal`:  task(func(t *structs.SidecarTask) { t.KillSignal = "X" }),
		`sidecar_task: kill_timeout must not be negative`: task(func(t *structs.SidecarTask) {
			t.KillTimeout = new(time.Duration(-1))
		}),
		`sidecar_task: shutdown_delay must not be negative`: task(func(t *structs.SidecarTask) {
			t.ShutdownDelay = new(time.Duration(-1))
		}),
		`sidecar_task: resources: cpu -1`: task(func(t *structs.SidecarTask) { t.Resources = &structs.Resources{CPU: -1} }),
		`sidecar_task: logs: max_files -1`: task(func(t *structs.SidecarTask) {
			t.LogConfig = &structs.LogConfig{MaxFiles: -1}
		}),
		`sidecar_task: volume_mount 1: volume "v" is no volume`: task(func(t *structs.SidecarTask) {
			t.VolumeMounts = []*structs.VolumeMount{{Volume: "v", Destination: "/v", PropagationMode: structs.PropagationPrivate}}
		}),
		`kind "connect-proxy:other" is set by the servers`: func(g *structs.TaskGroup, _ *structs.Service) {
			g.Tasks[0].Kind = "connect-proxy:other"
		},
		`kind "connect-native:front" is that of task "server"`: func(g *structs.TaskGroup, s *structs.Service) {
			s.TaskName = "server"
			s.Connect = &structs.Connect{Native: true}
			g.Tasks = append(g.Tasks, &structs.Task{Name: "b", Driver: "exec", Kind: "connect-native:front"})
		},
		`task "b": kind "connect-proxy:front" is that of another task, too`: func(g *structs.TaskGroup, _ *structs.Service) {
			g.Tasks[0].Kind = "connect-proxy:front"
			g.Tasks = append(g.Tasks, &structs.Task{Name: "b", Driver: "exec", Kind: "connect-proxy:front"})
		},
		`service: a proxy of the service mesh has none`: func(g *structs.TaskGroup, _ *structs.Service) {
			g.Tasks[0].Kind = "connect-proxy:front"
			g.Tasks[0].Services = []*structs.Service{{Name: "x"}}
		},
		`leader: a proxy of the service mesh cannot be leader`: func(g *structs.TaskGroup, _ *structs.Service) {
			g.Tasks[0].Kind = "connect-proxy:front"
			g.Tasks[0].Leader = true
		},
		`gateway: it has 2 of ingress, terminating and mesh`: gateway(func(_ *structs.TaskGroup, _ *structs.Service, x *structs.Gateway) {
			x.Terminating = oneTerminating()
		}),
		`gateway: a gateway needs a network of the group`: gateway(func(g *structs.TaskGroup, _ *structs.Service, _ *structs.Gateway) {
			g.Networks[0].Mode = "cni/x"
		}),
		`gateway: mesh: the service needs a port`: gateway(func(_ *structs.TaskGroup, s *structs.Service, x *structs.Gateway) {
			s.PortLabel = ""
			x.Ingress = nil
			x.Mesh = &structs.GatewayMesh{}
		}),
		`proxy: envoy_dns_discovery_type "x" must be`: gateway(func(_ *structs.TaskGroup, _ *structs.Service, x *structs.Gateway) {
			x.Proxy.EnvoyDNSDiscoveryType = "x"
		}),
		`proxy: connect_timeout must not be negative`: gateway(func(_ *structs.TaskGroup, _ *structs.Service, x *structs.Gateway) {
			x.Proxy.ConnectTimeout = new(time.Duration(-1))
		}),
		`envoy_gateway_bind_addresses "a": port -2 must be`: gateway(func(_ *structs.TaskGroup, _ *structs.Service, x *structs.Gateway) {
			x.Proxy.EnvoyGatewayBindAddresses = map[string]*structs.GatewayBindAddress{"a": {Address: "0.0.0.0",
				Port: -2}}
		}),
		`envoy_gateway_bind_addresses "a": address is required`: gateway(func(_ *structs.TaskGroup, _ *structs.Service, x *structs.Gateway) {
			x.Proxy.EnvoyGatewayBindAddresses = map[string]*structs.GatewayBindAddress{"a": {Port: 1}}
		}),
		`ingress: at least one listener is required`: gateway(func(_ *structs.TaskGroup, _ *structs.Service, x *structs.Gateway) {
			x.Ingress.Listeners = nil
		}),
		`ingress: tls: tls_min_version "1" must be`: gateway(func(_ *structs.TaskGroup, _ *structs.Service, x *structs.Gateway) {
			x.Ingress.TLS = &structs.GatewayTLS{TLSMinVersion: "1"}
		}),
		`listener 2: port 8080 is that of another listener`: gateway(func(_ *structs.TaskGroup, _ *structs.Service, x *structs.Gateway) {
			x.Ingress.Listeners = append(x.Ingress.Listeners, x.Ingress.Listeners[0])
		}),
		`listener 1: port 0 must be`:                    listener(func(l *structs.GatewayListener) { l.Port = 0 }),
		`listener 1: protocol "udp" must be`:            listener(func(l *structs.GatewayListener) { l.Protocol = "udp" }),
		`listener 1: at least one service`:              listener(func(l *structs.GatewayListener) { l.Services = nil }),
		`service 1: name is required`:                   listener(func(l *structs.GatewayListener) { l.Services[0].Name = "" }),
		`service 1: name "*" is for listeners of other`: listener(func(l *structs.GatewayListener) { l.Services[0].Name = "*" }),
		`service 1: hosts are for listeners of other`:   listener(func(l *structs.GatewayListener) { l.Services[0].Hosts = []string{"a"} }),
		`hosts: a service with the name "*" has none`: listener(func(l *structs.GatewayListener) {
			l.Protocol = "http"
			l.Services[0] = &structs.GatewayIngressService{Name: "*", Hosts: []string{"a"}}
		}),
		`service 2: name "web" is that of another service`: listener(func(l *structs.GatewayListener) {
			l.Protocol = "http"
			l.Services = append(l.Services, l.Services[0])
		}),
		`such a listener leads to one service`: listener(func(l *structs.GatewayListener) {
			l.Services = append(l.Services, &structs.GatewayIngressService{Name: "b"})
		}),
		`terminating: service 1: name is required`: linked(func(s *structs.GatewayLinkedService) { s.Name = "" }),
		`cert_file and key_file go together`: linked(func(s *structs.GatewayLinkedService) {
			s.CAFile = "/ca"
			s.KeyFile = "/key"
		}),
		`ca_file is required with cert_file, key_file or sni`: linked(func(s *structs.GatewayLinkedService) { s.SNI = "x" }),
		`expose is for services of groups with connect`: check(func(s *structs.Service, _ *structs.ServiceCheck) {
			s.Connect = nil
		}),
		`expose is for checks of type http`: check(func(_ *structs.Service, c *structs.ServiceCheck) {
			c.Type = structs.CheckTCP
		}),
		`expose: the port of the service inside the network namespace is not known`: check(
			func(s *structs.Service, _ *structs.ServiceCheck) { s.PortLabel = "${NOMAD_PORT_x}" }),
	} {
		j := sidecarJob()
		edit(j.TaskGroups[0], j.TaskGroups[0].Services[0:1:1][0])
		err := Job(j)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\n got %v", want, err)
		}
	}
}
