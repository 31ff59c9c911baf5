package jobfile

import (
	"maps"
	"slices"
	"strconv"

	"berth/structs"
)

func (w *jobWriter) services(list []*structs.Service) {
	for _, s := range list {
		w.block("service", func() { w.service(s) })
	}
}

func (w *jobWriter) service(s *structs.Service) {
	w.put("name", s.Name)
	w.put("task", s.TaskName)
	w.put("port", s.PortLabel)
	w.put("provider", s.Provider, structs.ServiceProviderConsul)
	w.put("address_mode", s.AddressMode, structs.AddressModeAuto)
	w.put("address", s.Address)
	w.put("on_update", s.OnUpdate, structs.OnUpdateRequireHealthy)
	w.put("tags", s.Tags)
	w.put("canary_tags", s.CanaryTags)
	w.put("enable_tag_override", s.EnableTagOverride)
	w.pairs("meta", s.Meta)
	w.pairs("canary_meta", s.CanaryMeta)
	w.pairs("tagged_addresses", s.TaggedAddresses)
	if s.Weights != nil {
		w.block("weights", func() {
			w.put("passing", s.Weights.Passing)
			w.put("warning", s.Weights.Warning)
		})
	}
	w.identity(s.Identity)
	w.checkRestart(s.CheckRestart)
	for _, c := range s.Checks {
		w.block("check", func() { w.check(c, s) })
	}
	w.connect(s.Connect)
}

func (w *jobWriter) check(c *structs.ServiceCheck, s *structs.Service) {
	w.put("name", c.Name, "service: "+strconv.Quote(s.Name)+" check")
	w.set("type", c.Type)
	w.put("task", c.TaskName)
	w.put("command", c.Command)
	w.put("args", c.Args)
	w.put("protocol", c.Protocol, "http")
	w.put("method", c.Method, "GET")
	w.put("path", c.Path)
	if len(c.Header) > 0 {
		w.set("header", c.Header)
	}
	w.put("body", c.Body)
	w.put("port", c.PortLabel)
	w.put("address_mode", c.AddressMode)
	w.set("interval", c.Interval)
	w.set("timeout", c.Timeout)
	w.put("initial_status", c.InitialStatus)
	w.put("tls_server_name", c.TLSServerName)
	w.put("tls_skip_verify", c.TLSSkipVerify)
	w.put("grpc_service", c.GRPCService)
	w.put("grpc_use_tls", c.GRPCUseTLS)
	w.put("expose", c.Expose)
	w.put("success_before_passing", c.SuccessBeforePassing)
	w.put("failures_before_critical", c.FailuresBeforeCritical)
	if s.OnUpdate == "" {
		w.put("on_update", c.OnUpdate, structs.OnUpdateRequireHealthy)
	} else {
		w.put("on_update", c.OnUpdate, s.OnUpdate)
	}
	w.checkRestart(c.CheckRestart)
}

func (w *jobWriter) checkRestart(r *structs.CheckRestart) {
	if r == nil {
		return
	}
	w.block("check_restart", func() {
		w.put("limit", r.Limit)
		w.put("grace", r.Grace)
		w.put("ignore_warnings", r.IgnoreWarnings)
	})
}

func (w *jobWriter) connect(c *structs.Connect) {
	if c == nil {
		return
	}
	w.block("connect", func() {
		w.put("native", c.Native)
		if s := c.SidecarService; s != nil {
			w.block("sidecar_service", func() {
				w.put("port", s.Port)
				w.put("tags", s.Tags)
				w.put("disable_default_tcp_check", s.DisableDefaultTCPCheck)
				w.pairs("meta", s.Meta)
				w.proxy(s.Proxy)
			})
		}
		if t := c.SidecarTask; t != nil {
			w.block("sidecar_task", func() { w.sidecarTask(t) })
		}
		if g := c.Gateway; g != nil {
			w.block("gateway", func() { w.gateway(g) })
		}
	})
}

func (w *jobWriter) sidecarTask(t *structs.SidecarTask) {
	w.put("name", t.Name)
	w.put("driver", t.Driver)
	w.put("user", t.User)
	w.put("kill_timeout", t.KillTimeout)
	w.put("shutdown_delay", t.ShutdownDelay)
	w.put("kill_signal", t.KillSignal)
	w.values("config", t.Config)
	w.pairs("env", t.Env)
	w.pairs("meta", t.Meta)
	w.volumeMounts(t.VolumeMounts)
	w.resources(t.Resources, 0, 0)
	if l := t.LogConfig; l != nil {
		w.block("logs", func() {
			w.put("max_files", l.MaxFiles)
			w.put("max_file_size", l.MaxFileSizeMB)
			w.put("disabled", l.Disabled)
		})
	}
}

func (w *jobWriter) proxy(p *structs.ConnectProxy) {
	if p == nil {
		return
	}
	w.block("proxy", func() {
		w.put("local_service_address", p.LocalServiceAddress)
		w.put("local_service_port", p.LocalServicePort)
		w.values("config", p.Config)
		for _, u := range p.Upstreams {
			w.block("upstreams", func() { w.upstream(u) })
		}
		if p.Expose != nil {
			w.block("expose", func() {
				for _, x := range p.Expose.Paths {
					w.block("path", func() {
						w.set("path", x.Path)
						w.put("protocol", x.Protocol, structs.DefaultExposeProtocol)
						w.set("local_path_port", x.LocalPathPort)
						w.set("listener_port", x.ListenerPort)
					})
				}
			})
		}
	})
}

func (w *jobWriter) upstream(u *structs.ConnectUpstream) {
	w.set("destination_name", u.DestinationName)
	w.put("destination_namespace", u.DestinationNamespace)
	w.put("destination_peer", u.DestinationPeer)
	w.put("destination_type", u.DestinationType)
	w.put("local_bind_port", u.LocalBindPort)
	w.put("datacenter", u.Datacenter)
	w.put("local_bind_address", u.LocalBindAddress)
	w.put("local_bind_socket_path", u.LocalBindSocketPath)
	w.put("local_bind_socket_mode", u.LocalBindSocketMode)
	w.values("config", u.Config)
	if u.MeshGateway != nil && u.MeshGateway.Mode != "" {
		w.block("mesh_gateway", func() { w.put("mode", u.MeshGateway.Mode) })
	}
}

func (w *jobWriter) gateway(g *structs.Gateway) {
	if g.Proxy != nil {
		w.block("proxy", func() { w.gatewayProxy(g.Proxy) })
	}
	if g.Ingress != nil {
		w.block("ingress", func() { w.ingress(g.Ingress) })
	}
	if g.Terminating != nil {
		w.block("terminating", func() {
			for _, s := range g.Terminating.Services {
				w.block("service", func() {
					w.set("name", s.Name)
					w.put("ca_file", s.CAFile)
					w.put("cert_file", s.CertFile)
					w.put("key_file", s.KeyFile)
					w.put("sni", s.SNI)
				})
			}
		})
	}
	if g.Mesh != nil {
		w.block("mesh", func() {})
	}
}

func (w *jobWriter) gatewayProxy(p *structs.GatewayProxy) {
	w.put("connect_timeout", p.ConnectTimeout)
	w.put("envoy_gateway_bind_tagged_addresses", p.EnvoyGatewayBindTaggedAddresses)
	w.put("envoy_gateway_no_default_bind", p.EnvoyGatewayNoDefaultBind)
	w.put("envoy_dns_discovery_type", p.EnvoyDNSDiscoveryType)
	w.values("config", p.Config)
	for _, name := range slices.Sorted(maps.Keys(p.EnvoyGatewayBindAddresses)) {
		a := p.EnvoyGatewayBindAddresses[name]
		w.block("envoy_gateway_bind_addresses", func() {
			w.set("address", a.Address)
			w.set("port", a.Port)
		}, name)
	}
}

func (w *jobWriter) ingress(i *structs.GatewayIngress) {
	if t := i.TLS; t != nil {
		w.block("tls", func() {
			w.put("enabled", t.Enabled)
			w.put("tls_min_version", t.TLSMinVersion)
			w.put("tls_max_version", t.TLSMaxVersion)
			w.put("cipher_suites", t.CipherSuites)
		})
	}
	for _, l := range i.Listeners {
		w.block("listener", func() {
			w.set("port", l.Port)
			w.put("protocol", l.Protocol, structs.DefaultListenerProtocol)
			for _, s := range l.Services {
				w.block("service", func() {
					w.set("name", s.Name)
					w.put("hosts", s.Hosts)
				})
			}
		})
	}
}
