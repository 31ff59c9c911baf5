package structs

import (
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxConnectName keeps the labels of the ports that berth names after a service within their bound.
const maxConnectName = 44

// validateKind checks that the kind of a task names a service in the service mesh.
func (g *TaskGroup) validateKind(f fieldErrors, t *Task, seen map[TaskKind]bool) {
	if t.Kind == "" {
		return
	}

	isIts := func(s *Service) bool { return s != nil && s.TaskKind() == t.Kind }
	at := slices.IndexFunc(g.Services, isIts)
	if at < 0 {
		f.addf("kind %q is set by the servers from the connect of a service; no service of the group has it",
			Cut(string(t.Kind), MaxQuoted))
		return
	}

	f.require(!seen[t.Kind], "kind %q is that of another task, too", t.Kind)
	seen[t.Kind] = true
	if t.Kind.IsProxy() {
		f.require(len(t.Services) == 0, "service: a proxy of the service mesh has none")
		f.require(!t.Leader, "leader: a proxy of the service mesh cannot be leader")
		return
	}

	of := g.Services[at].TaskName
	f.require(of == "" || of == t.Name, "kind %q is that of task %q", t.Kind, of)
}

// validateConnect checks the parts of the services of a group in the service mesh against each other.
func (g *TaskGroup) validateConnect(f fieldErrors) {
	names := map[string]bool{}
	natives := map[string]string{}   // the services of tasks
	listeners := map[string]string{} // the services with upstreams by their addresses
	for i, s := range g.Services {
		if s == nil || s.Connect == nil {
			continue
		}

		f := f.at("service %d", i+1).at("connect")
		f.require(!names[s.Name], "another service of the group has the name %q and connect, too", s.Name)
		names[s.Name] = true
		if s.Connect.Native {
			other, taken := natives[s.TaskName]
			f.require(!taken, "native: task %q is that of service %q, too", s.TaskName, other)
			natives[s.TaskName] = s.Name
		}

		for n, u := range s.upstreams() {
			if u == nil {
				continue
			}

			other, taken := listeners[u.listener()]
			f.at("sidecar_service").at("proxy").at("upstreams %d", n+1).require(!taken,
				"local_bind_port: an upstream of service %q has the address %s, too", other, u.listener())
			listeners[u.listener()] = s.Name
		}
	}
}

// upstreams returns the upstreams of a sidecar, at most as many as it may have.
func (s *Service) upstreams() []*ConnectUpstream {
	if s.Connect == nil || s.Connect.SidecarService == nil || s.Connect.SidecarService.Proxy == nil {
		return nil
	}
	all := s.Connect.SidecarService.Proxy.Upstreams
	return all[:min(len(all), MaxMeshItems)]
}

// listener returns the address at which the tasks of the group reach the upstream.
func (u *ConnectUpstream) listener() string {
	if u.LocalBindSocketPath != "" {
		return u.LocalBindSocketPath
	}
	host := u.LocalBindAddress
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(u.LocalBindPort))
}

// validateConnect checks the part of the service in the service mesh.
func (s *OwnedService) validateConnect(f fieldErrors, g *TaskGroup) {
	c := s.Connect
	if c == nil {
		return
	}

	inService := f
	f = f.at("connect")
	f.require(s.Owner == "", "it is for services of groups; move the service to the group")
	f.require(s.Provider == ServiceProviderConsul,
		"it is for services with provider = %q", ServiceProviderConsul)
	ways := 0
	for _, has := range []bool{c.Native, c.SidecarService != nil, c.Gateway != nil} {
		if has {
			ways++
		}
	}

	f.require(ways == 1, "it has %d of native = true, sidecar_service and gateway; expected one", ways)
	inService.require(!HasPlaceholder(s.Name),
		"name %q has a placeholder that has no value before a node has the job, but connect needs one", s.Name)
	inService.require(len(s.Name) <= maxConnectName,
		"name has %d bytes; with connect at most %d are allowed", len(s.Name), maxConnectName)
	if c.SidecarTask != nil {
		f.require(!c.Native, "sidecar_task: a service with native = true has no proxy; leave it out")
		c.SidecarTask.validate(f.at("sidecar_task"), g)
	}

	switch {
	case ways != 1:
	case c.Native:
		f.require(s.TaskName != "" || len(g.Tasks) == 1,
			"native: the group has %d tasks; name the task that takes part in task of the service", len(g.Tasks))
	case c.Gateway != nil:
		c.Gateway.validate(f.at("gateway"), s.Service, g)
	default:
		s.validateSidecar(f, g)
	}
}

// validateSidecar checks a service with a proxy of its own.
func (s *OwnedService) validateSidecar(f fieldErrors, g *TaskGroup) {
	n := g.Network()
	joins := n != nil && (n.Mode == NetworkModeBridge || strings.HasPrefix(n.Mode, NetworkModeCNI))
	f.require(joins, "sidecar_service: a proxy guards a network namespace; "+
		"give the group a network with mode = %q", NetworkModeBridge)
	// Consul's own proxy looks for the service in lower case.
	f.require(s.Name == strings.ToLower(s.Name),
		"sidecar_service: Consul takes no capital letters in %q", s.Name)
	f.require(g.Name == strings.ToLower(g.Name),
		"sidecar_service: Consul takes no capital letters in the name of group %q", g.Name)
	f = f.at("sidecar_service")
	side := s.Connect.SidecarService
	f.require(s.PortLabel != "" || side.Proxy != nil && side.Proxy.LocalServicePort > 0,
		"the proxy leads to a port of the service; write port in the service, or local_service_port in the proxy")
	f.require(side.Port == "" || portLabelForm().MatchString(side.Port),
		"port %q must be the label of a port, 1 to 64 letters, digits, dashes and underscores", side.Port)
	for _, tag := range firstOf(f, "tags", side.Tags, MaxServiceTags) {
		f.checkString("tags: tag", tag, MaxName)
	}

	f.checkMeta("meta", side.Meta)
	f.checkConsulMeta("meta", side.Meta)
	if side.Proxy != nil {
		side.Proxy.validate(f.at("proxy"), g)
	}
}

func (p *ConnectProxy) validate(f fieldErrors, g *TaskGroup) {
	f.checkBindAddress("local_service_address", p.LocalServiceAddress)
	f.checkRange("local_service_port", p.LocalServicePort, intRange{0, MaxPort, ""})
	f.checkProxyConfig(p.Config)
	for i, u := range firstOf(f, "upstreams", p.Upstreams, MaxMeshItems) {
		if u == nil {
			f.addf("upstreams %d is null", i+1)
			continue
		}

		u.validate(f.at("upstreams %d", i+1))
	}

	if p.Expose == nil {
		return
	}

	f = f.at("expose")
	for i, x := range firstOf(f, "paths", p.Expose.Paths, MaxMeshItems) {
		if x == nil {
			f.addf("path %d is null", i+1)
			continue
		}

		x.validate(f.at("path %d", i+1), g)
	}
}

// checkProxyConfig checks the settings of a proxy that only the proxy knows.
func (f fieldErrors) checkProxyConfig(config map[string]any) {
	f.require(NestsWithin(config, MaxConfigNesting), "config nests maps and lists more than %d levels deep",
		MaxConfigNesting)
}

// checkBindAddress checks an IP address on which a proxy listens, or to which it connects.
func (f fieldErrors) checkBindAddress(name, address string) {
	f.checkString(name, address, MaxName)
	f.require(address == "" || HasPlaceholder(address) || net.ParseIP(address) != nil,
		"%s %q must be an IP address", name, Cut(address, MaxQuoted))
}

// The types of the destinations of upstreams.
const (
	destinationService = "service"
	destinationQuery   = "prepared_query"
)

func (u *ConnectUpstream) validate(f fieldErrors) {
	f.checkMeshName("destination_name", u.DestinationName)
	f.require(u.DestinationNamespace == "" || u.DestinationNamespace == DefaultNamespace,
		"destination_namespace %q: namespaces are those of Consul Enterprise; leave it out",
		Cut(u.DestinationNamespace, MaxQuoted))
	f.checkString("destination_peer", u.DestinationPeer, MaxName)
	f.checkString("datacenter", u.Datacenter, MaxName)
	f.checkOneOf("destination_type", u.DestinationType, []string{"", destinationService, destinationQuery})
	if u.MeshGateway != nil {
		f.at("mesh_gateway").checkOneOf("mode", u.MeshGateway.Mode, []string{"", "local", "remote", "none"})
	}

	f.checkProxyConfig(u.Config)
	f.checkBindAddress("local_bind_address", u.LocalBindAddress)
	socket := u.LocalBindSocketPath
	if socket == "" {
		f.checkRange("local_bind_port", u.LocalBindPort, intRange{1, MaxPort, ""})
		f.require(u.LocalBindSocketMode == "", "local_bind_socket_mode: there is no local_bind_socket_path")
		return
	}

	f.require(u.LocalBindPort == 0 && u.LocalBindAddress == "",
		"local_bind_socket_path: the upstream has a socket or a port; leave out one of them")
	f.checkText("local_bind_socket_path", socket)
	f.require(path.IsAbs(socket) || HasPlaceholder(socket),
		"local_bind_socket_path %q must be an absolute path", Cut(socket, MaxQuoted))
	mode := u.LocalBindSocketMode
	_, err := strconv.ParseUint(mode, 8, 12)
	f.require(mode == "" || err == nil,
		"local_bind_socket_mode %q must be octal, such as 0600", Cut(mode, MaxQuoted))
}

// checkMeshName checks the name of a service, or of a query, in Consul. It need not be one of a job.
func (f fieldErrors) checkMeshName(name, value string) {
	f.require(value != "", "%s is required", name)
	f.checkString(name, value, MaxName)
}

func (x *ConnectExposePath) validate(f fieldErrors, g *TaskGroup) {
	f.checkText("path", x.Path)
	f.require(strings.HasPrefix(x.Path, "/") || strings.HasPrefix(x.Path, Placeholder),
		"path %q must begin with /", Cut(x.Path, MaxQuoted))
	f.checkOneOf("protocol", x.Protocol, []string{"http", "http2"})
	f.checkRange("local_path_port", x.LocalPathPort, intRange{1, MaxPort, ""})
	f.require(x.ListenerPort != "", "listener_port is required: the label of a port of the group")
	f.require(x.ListenerPort == "" || g.HasPort(x.ListenerPort),
		"listener_port %q: the network of the group has no port with this label", Cut(x.ListenerPort, MaxQuoted))
}

// validate checks the fields of a proxy's task that the user gives, in their place in the file.
func (t *SidecarTask) validate(f fieldErrors, g *TaskGroup) {
	if t.Name != "" {
		f.checkName("name", t.Name)
	}

	f.checkString("driver", t.Driver, MaxName)
	f.checkString("user", t.User, MaxName)
	f.checkMeta("meta", t.Meta)
	f.checkMeta("env", t.Env)
	f.checkProxyConfig(t.Config)
	f.checkSignal("kill_signal", t.KillSignal)
	if t.KillTimeout != nil {
		f.checkDuration("kill_timeout", *t.KillTimeout, MaxTaskWait)
	}

	if t.ShutdownDelay != nil {
		f.checkDuration("shutdown_delay", *t.ShutdownDelay, MaxTaskWait)
	}

	if l := t.LogConfig; l != nil {
		f.checkRange("logs: max_files", l.MaxFiles, intRange{0, MaxLogFiles, ""})
		f.checkRange("logs: max_file_size", l.MaxFileSizeMB, intRange{0, MaxLogFileSizeMB, " MiB"})
	}

	if t.Resources != nil {
		r := *t.Resources
		setDefault(&r.CPU, DefaultProxyCPU)
		setDefault(&r.MemoryMB, DefaultProxyMemoryMB)
		r.validate(f.at("resources"))
	}

	mounts := &Task{VolumeMounts: t.VolumeMounts}
	mounts.validateMounts(f, g)
}
