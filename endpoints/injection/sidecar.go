// Package injection adds to a job the parts that its user leaves to the servers: the tasks and ports that its
// service mesh needs, and the identities with which its workloads log in at Vault and Consul, unless the job
// names them itself.
//
// The servers do so when they take in a job: each agent then sees the tasks and identities of a plain job. A
// job is added to only after its user's own text is found valid, so that every fault has a place in the file
// of the user. The result is a job that may be registered again without a further change.
package injection

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"berth/structs"
	"berth/structs/validate"
	"berth/structs/validate/field"
)

// AddSidecars checks a canonical job, and adds to a job without faults what its service mesh needs. The
// faults of the job that the user wrote come first, because they have places in the file.
func AddSidecars(j *structs.Job) *field.Faults {
	faults := validate.JobFaults(j)
	if faults.Err() != nil || !slices.ContainsFunc(j.TaskGroups, (*structs.TaskGroup).UsesConnect) {
		return faults
	}
	// The job is checked again, because what was added has limits too.
	injectJob(j)
	return validate.JobFaults(j)
}

// injectJob adds the tasks and ports of the service mesh to a canonical job without faults. It is idempotent:
// the job that it changed may be registered again.
func injectJob(j *structs.Job) {
	for _, g := range j.TaskGroups {
		for _, s := range g.Services {
			if s.Connect != nil {
				inject(g, s)
			}
		}
	}
}

// inject adds the parts of one service. The kind of its task says whether the service has a proxy, is a
// gateway, or takes part by itself.
func inject(g *structs.TaskGroup, s *structs.Service) {
	kind := s.TaskKind()
	c := s.Connect
	switch kind.Kind() {
	case structs.KindConnectNative:
		if s.TaskName == "" {
			s.TaskName = g.Tasks[0].Name
		}

		if t := g.Task(s.TaskName); t != nil {
			t.Kind = kind
		}

		// The task speaks the protocol of the mesh itself, so it needs no proxy.
		return

	case structs.KindConnectProxy:
		exposeChecks(g, s)
		c.SidecarService.Port = cmp.Or(c.SidecarService.Port, kind.PortLabel())
		injectPort(g, c.SidecarService.Port)
	case structs.KindConnectTerminating:
		// A port that the user has chosen stays.
		if s.PortLabel == "" {
			s.PortLabel = kind.PortLabel()
			injectPort(g, s.PortLabel)
		}

	case structs.KindConnectMesh:
		injectPort(g, structs.MeshLANPort(s.Name))
	}

	// In the network of the host, a gateway has the addresses of the node.
	if c.Gateway != nil && g.Network().Mode == structs.NetworkModeBridge {
		bindInBridge(c.Gateway)
	}

	injectTask(g, s, kind)
}

// injectPort adds a dynamic port that has the same number inside the network namespace.
func injectPort(g *structs.TaskGroup, label string) {
	if g.HasPort(label) {
		return
	}
	n := g.Network()
	n.DynamicPorts = append(n.DynamicPorts, structs.Port{
		Label: label,
		// -1 gives the port the same number inside the network namespace.
		To:          -1,
		HostNetwork: structs.DefaultHostNetwork,
	})
}

// bindInBridge makes a gateway listen on all addresses of its network namespace, as in the dialect. An
// address with DynamicBind gets a port of the allocation.
func bindInBridge(g *structs.Gateway) {
	p := g.Proxy
	// Any of these fields means that the user has chosen the addresses.
	if p.EnvoyGatewayNoDefaultBind || p.EnvoyGatewayBindTaggedAddresses || len(p.EnvoyGatewayBindAddresses) > 0 {
		return
	}

	p.EnvoyGatewayNoDefaultBind = true
	p.EnvoyGatewayBindAddresses = map[string]*structs.GatewayBindAddress{}
	bind := func(name string, port int) {
		p.EnvoyGatewayBindAddresses[name] = &structs.GatewayBindAddress{
			Address: "0.0.0.0",
			Port:    port,
		}
	}

	switch {
	case g.Ingress != nil:
		for _, l := range g.Ingress.Listeners {
			for _, s := range l.Services {
				bind(s.Name, l.Port)
			}
		}

	case g.Terminating != nil:
		bind("default", structs.DynamicBind)
	case g.Mesh != nil:
		bind("wan", structs.DynamicBind)
		bind("lan", structs.DynamicBind)
	}
}

// exposeChecks makes the proxy of a service serve the paths of its exposed checks.
func exposeChecks(g *structs.TaskGroup, s *structs.Service) {
	for i, c := range s.Checks {
		if !c.Expose {
			continue
		}

		// A check without a port gets one of its own, at which the proxy listens for this path alone.
		if c.PortLabel == "" {
			c.PortLabel = exposeLabel(s.Name, i, c)
			injectPort(g, c.PortLabel)
		}

		port, _ := g.LocalPort(s)
		x := structs.ConnectExposePath{
			Path:          c.Path,
			Protocol:      structs.DefaultExposeProtocol,
			LocalPathPort: port,
			ListenerPort:  c.PortLabel,
		}

		side := s.Connect.SidecarService
		if side.Proxy == nil {
			side.Proxy = &structs.ConnectProxy{}
		}

		if side.Proxy.Expose == nil {
			side.Proxy.Expose = &structs.ConnectExpose{}
		}

		// A job that is registered again has the path already.
		paths := side.Proxy.Expose.Paths
		if !slices.ContainsFunc(paths, func(o *structs.ConnectExposePath) bool { return *o == x }) {
			side.Proxy.Expose.Paths = append(paths, &x)
		}
	}
}

// exposeLabel returns the label of the port of an exposed check. It is the same at each registration. The
// label has a hash of the check, because two checks of a service may differ in their paths alone.
func exposeLabel(service string, index int, c *structs.ServiceCheck) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s\x00%s", service, index, c.Name, c.Path))
	return "svc_" + service + "_ck_" + hex.EncodeToString(sum[:3])
}
