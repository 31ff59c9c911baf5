package validate

import (
	"cmp"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// maxConnectName keeps the labels of the ports that berth names after a service within their bound.
const maxConnectName = 44

// checkKind checks that the kind of a task names a service in the service mesh.
func checkKind(f field.Errors, g *structs.TaskGroup, t *structs.Task, seen map[structs.TaskKind]bool) {
	if t.Kind == "" {
		return
	}

	isIts := func(s *structs.Service) bool { return s != nil && s.TaskKind() == t.Kind }

	// The servers derive the kind from a service, so a kind without its service was not set by them.
	at := slices.IndexFunc(g.Services, isIts)
	if at < 0 {
		f.Addf("kind %q is set by the servers from the connect of a service; no service of the group has it",
			structs.Cut(string(t.Kind), structs.MaxQuoted))
		return
	}

	f.Require(!seen[t.Kind], "kind %q is that of another task, too", t.Kind)
	seen[t.Kind] = true
	if t.Kind.IsProxy() {
		f.Require(len(t.Services) == 0, "service: a proxy of the service mesh has none")
		f.Require(!t.Leader, "leader: a proxy of the service mesh cannot be leader")
		return
	}

	of := g.Services[at].TaskName
	f.Require(of == "" || of == t.Name, "kind %q is that of task %q", t.Kind, of)
}

// checkMesh checks the parts of the services of a group in the service mesh against each other.
func checkMesh(f field.Errors, g *structs.TaskGroup) {
	names := map[string]bool{}
	natives := map[string]string{}   // the services of tasks
	listeners := map[string]string{} // the services with upstreams by their addresses
	for i, s := range g.Services {
		if s == nil || s.Connect == nil {
			continue
		}

		// The proxies of a group share a network namespace, so no two of their upstreams may have one
		// address.
		f := f.At("service %d", i+1).At("connect")
		f.Require(!names[s.Name], "another service of the group has the name %q and connect, too", s.Name)
		names[s.Name] = true
		if s.Connect.Native {
			other, taken := natives[s.TaskName]
			f.Require(!taken, "native: task %q is that of service %q, too", s.TaskName, other)
			natives[s.TaskName] = s.Name
		}

		for n, u := range upstreams(s) {
			if u == nil {
				continue
			}

			other, taken := listeners[listener(u)]
			f.At("sidecar_service").At("proxy").At("upstreams %d", n+1).Require(!taken,
				"local_bind_port: an upstream of service %q has the address %s, too", other, listener(u))
			listeners[listener(u)] = s.Name
		}
	}
}

// upstreams returns the upstreams of a sidecar, at most as many as it may have.
func upstreams(s *structs.Service) []*structs.ConnectUpstream {
	if s.Connect == nil || s.Connect.SidecarService == nil || s.Connect.SidecarService.Proxy == nil {
		return nil
	}
	all := s.Connect.SidecarService.Proxy.Upstreams
	return all[:min(len(all), structs.MaxMeshItems)]
}

// listener returns the address at which the tasks of the group reach the upstream.
func listener(u *structs.ConnectUpstream) string {
	if u.LocalBindSocketPath != "" {
		return u.LocalBindSocketPath
	}
	host := u.LocalBindAddress
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(u.LocalBindPort))
}

// checkConnect checks the part of the service in the service mesh.
func checkConnect(f field.Errors, s *structs.OwnedService, g *structs.TaskGroup) {
	c := s.Connect
	if c == nil {
		return
	}

	inService := f
	f = f.At("connect")
	f.Require(s.Owner == "", "it is for services of groups; move the service to the group")
	f.Require(s.Provider == structs.ServiceProviderConsul,
		"it is for services with provider = %q", structs.ServiceProviderConsul)

	// The three parts exclude each other: each makes another kind of proxy, or none.
	ways := 0
	for _, has := range []bool{c.Native, c.SidecarService != nil, c.Gateway != nil} {
		if has {
			ways++
		}
	}

	f.Require(ways == 1, "it has %d of native = true, sidecar_service and gateway; expected one", ways)
	inService.Require(!structs.HasPlaceholder(s.Name),
		"name %q has a placeholder that has no value before a node has the job, but connect needs one",
		s.Name)
	inService.Require(len(s.Name) <= maxConnectName,
		"name has %d bytes; with connect at most %d are allowed", len(s.Name), maxConnectName)
	if c.SidecarTask != nil {
		f.Require(!c.Native, "sidecar_task: a service with native = true has no proxy; leave it out")
		checkSidecarTask(f.At("sidecar_task"), c.SidecarTask, g)
	}

	switch {
	// Without one way it is not known which rules apply. The fault above names that.
	case ways != 1:
	case c.Native:
		f.Require(s.TaskName != "" || len(g.Tasks) == 1,
			"native: the group has %d tasks; name the task that takes part in task of the service",
			len(g.Tasks))
	case c.Gateway != nil:
		checkGateway(f.At("gateway"), c.Gateway, s.Service, g)
	default:
		checkSidecar(f, s, g)
	}
}

// checkSidecar checks a service with a proxy of its own.
func checkSidecar(f field.Errors, s *structs.OwnedService, g *structs.TaskGroup) {
	n := g.Network()
	joins := n != nil && (n.Mode == structs.NetworkModeBridge ||
		strings.HasPrefix(n.Mode, structs.NetworkModeCNI))
	f.Require(joins, "sidecar_service: a proxy guards a network namespace; "+
		"give the group a network with mode = %q", structs.NetworkModeBridge)
	// Consul's own proxy looks for the service in lower case.
	f.Require(s.Name == strings.ToLower(s.Name),
		"sidecar_service: Consul takes no capital letters in %q", s.Name)
	f.Require(g.Name == strings.ToLower(g.Name),
		"sidecar_service: Consul takes no capital letters in the name of group %q", g.Name)
	f = f.At("sidecar_service")
	side := s.Connect.SidecarService

	// The proxy passes what it receives to this port.
	f.Require(s.PortLabel != "" || side.Proxy != nil && side.Proxy.LocalServicePort > 0,
		"the proxy leads to a port of the service; write port in the service, or local_service_port in the proxy")
	f.Require(side.Port == "" || portLabelForm().MatchString(side.Port),
		"port %q must be the label of a port, 1 to 64 letters, digits, dashes and underscores", side.Port)
	for _, tag := range field.FirstOf(f, "tags", side.Tags, structs.MaxServiceTags) {
		f.CheckString("tags: tag", tag, structs.MaxName)
	}

	f.CheckMeta("meta", side.Meta)
	checkConsulMeta(f, "meta", side.Meta)
	if side.Proxy != nil {
		checkProxy(f.At("proxy"), side.Proxy, g)
	}
}

// checkProxy checks the settings of a sidecar: its upstreams, and the paths that it exposes to checks.
func checkProxy(f field.Errors, p *structs.ConnectProxy, g *structs.TaskGroup) {
	checkBindAddress(f, "local_service_address", p.LocalServiceAddress)
	f.CheckRange("local_service_port", p.LocalServicePort, field.Between(0, structs.MaxPort))
	checkProxyConfig(f, p.Config)
	for i, u := range field.FirstOf(f, "upstreams", p.Upstreams, structs.MaxMeshItems) {
		if u == nil {
			f.Addf("upstreams %d is null", i+1)
			continue
		}

		checkUpstream(f.At("upstreams %d", i+1), u)
	}

	if p.Expose == nil {
		return
	}

	f = f.At("expose")
	for i, x := range field.FirstOf(f, "paths", p.Expose.Paths, structs.MaxMeshItems) {
		if x == nil {
			f.Addf("path %d is null", i+1)
			continue
		}

		checkExposePath(f.At("path %d", i+1), x, g)
	}
}

// checkProxyConfig checks the settings of a proxy that only the proxy knows.
func checkProxyConfig(f field.Errors, config map[string]any) {
	f.Require(field.NestsWithin(config, structs.MaxConfigNesting),
		"config nests maps and lists more than %d levels deep", structs.MaxConfigNesting)
}

// checkBindAddress checks an IP address on which a proxy listens, or to which it connects.
func checkBindAddress(f field.Errors, name, address string) {
	f.CheckString(name, address, structs.MaxName)
	f.Require(address == "" || structs.HasPlaceholder(address) || net.ParseIP(address) != nil,
		"%s %q must be an IP address", name, structs.Cut(address, structs.MaxQuoted))
}

// The types of the destinations of upstreams.
const (
	destinationService = "service"
	destinationQuery   = "prepared_query"
)

// checkUpstream checks the way to another service. The proxy listens for it at a port or at a socket, and
// never at both.
func checkUpstream(f field.Errors, u *structs.ConnectUpstream) {
	checkMeshName(f, "destination_name", u.DestinationName)
	f.Require(u.DestinationNamespace == "" || u.DestinationNamespace == structs.DefaultNamespace,
		"destination_namespace %q: namespaces are those of Consul Enterprise; leave it out",
		structs.Cut(u.DestinationNamespace, structs.MaxQuoted))
	f.CheckString("destination_peer", u.DestinationPeer, structs.MaxName)
	f.CheckString("datacenter", u.Datacenter, structs.MaxName)
	f.CheckOneOf("destination_type", u.DestinationType, []string{"", destinationService, destinationQuery})
	if u.MeshGateway != nil {
		f.At("mesh_gateway").CheckOneOf("mode", u.MeshGateway.Mode, []string{"", "local", "remote", "none"})
	}

	checkProxyConfig(f, u.Config)
	checkBindAddress(f, "local_bind_address", u.LocalBindAddress)
	socket := u.LocalBindSocketPath
	if socket == "" {
		f.CheckRange("local_bind_port", u.LocalBindPort, field.Between(1, structs.MaxPort))
		f.Require(u.LocalBindSocketMode == "", "local_bind_socket_mode: there is no local_bind_socket_path")
		return
	}

	f.Require(u.LocalBindPort == 0 && u.LocalBindAddress == "",
		"local_bind_socket_path: the upstream has a socket or a port; leave out one of them")
	f.CheckText("local_bind_socket_path", socket)
	f.Require(path.IsAbs(socket) || structs.HasPlaceholder(socket),
		"local_bind_socket_path %q must be an absolute path", structs.Cut(socket, structs.MaxQuoted))

	// A mode has 12 bits: three octal digits, and the set-user-ID, set-group-ID and sticky bits.
	mode := u.LocalBindSocketMode
	_, err := strconv.ParseUint(mode, 8, 12)
	f.Require(mode == "" || err == nil,
		"local_bind_socket_mode %q must be octal, such as 0600", structs.Cut(mode, structs.MaxQuoted))
}

// checkMeshName checks the name of a service, or of a query, in Consul. It need not be one of a job.
func checkMeshName(f field.Errors, name, value string) {
	f.Require(value != "", "%s is required", name)
	f.CheckString(name, value, structs.MaxName)
}

// checkExposePath checks a path of the service that is reached without the proxy's authorisation, at a port
// of the group.
func checkExposePath(f field.Errors, x *structs.ConnectExposePath, g *structs.TaskGroup) {
	f.CheckText("path", x.Path)
	f.Require(strings.HasPrefix(x.Path, "/") || strings.HasPrefix(x.Path, structs.Placeholder),
		"path %q must begin with /", structs.Cut(x.Path, structs.MaxQuoted))
	f.CheckOneOf("protocol", x.Protocol, []string{"http", "http2"})
	f.CheckRange("local_path_port", x.LocalPathPort, field.Between(1, structs.MaxPort))
	f.Require(x.ListenerPort != "", "listener_port is required: the label of a port of the group")
	f.Require(x.ListenerPort == "" || g.HasPort(x.ListenerPort),
		"listener_port %q: the network of the group has no port with this label",
		structs.Cut(x.ListenerPort, structs.MaxQuoted))
}

// checkSidecarTask checks the fields of a proxy's task that the user gives, in their place in the file.
func checkSidecarTask(f field.Errors, t *structs.SidecarTask, g *structs.TaskGroup) {
	if t.Name != "" {
		f.CheckName("name", t.Name)
	}

	f.CheckString("driver", t.Driver, structs.MaxName)
	f.CheckString("user", t.User, structs.MaxName)
	f.CheckMeta("meta", t.Meta)
	f.CheckMeta("env", t.Env)
	checkProxyConfig(f, t.Config)
	checkSignal(f, "kill_signal", t.KillSignal)
	if t.KillTimeout != nil {
		f.CheckDuration("kill_timeout", *t.KillTimeout, structs.MaxTaskWait)
	}

	if t.ShutdownDelay != nil {
		f.CheckDuration("shutdown_delay", *t.ShutdownDelay, structs.MaxTaskWait)
	}

	if l := t.LogConfig; l != nil {
		f.CheckRange("logs: max_files", l.MaxFiles, field.Between(0, structs.MaxLogFiles))
		f.CheckRange("logs: max_file_size", l.MaxFileSizeMB,
			field.Between(0, structs.MaxLogFileSizeMB).In(" MiB"))
	}

	if t.Resources != nil {
		// Missing resources get the defaults of a proxy, and not a task's.
		r := *t.Resources
		r.CPU = cmp.Or(r.CPU, structs.DefaultProxyCPU)
		r.MemoryMB = cmp.Or(r.MemoryMB, structs.DefaultProxyMemoryMB)
		checkResources(f.At("resources"), &r)
	}

	// The mounts are the only part of the task for which the group matters.
	mounts := &structs.Task{VolumeMounts: t.VolumeMounts}
	checkMounts(f, mounts, g)
}
