package defaults

import (
	"berth/structs"
	"maps"
	"strings"
	"time"
)

// gatewayTimeout is the default of ConnectTimeout, as in the dialect.
const gatewayTimeout = 5 * time.Second

// canonicalizeConnect sets the defaults of the part of a service in the service mesh. The names of tasks and
// ports of the mesh contain the name of the service, so this must have a value before a node has the job.
func canonicalizeConnect(s *structs.Service, j *structs.Job, g *structs.TaskGroup) {
	c := s.Connect
	if c == nil {
		return
	}

	s.Name = expandFacts(s.Name, nameFacts(j, g))
	if c.SidecarService != nil && c.SidecarService.Proxy != nil {
		canonicalizeProxy(c.SidecarService.Proxy)
	}

	if c.Gateway != nil {
		canonicalizeGateway(c.Gateway)
	}

	if c.SidecarTask != nil {
		canonicalizeMounts(c.SidecarTask.VolumeMounts)
		if r := c.SidecarTask.Resources; r != nil {
			r.DiskMB = 0 // as for a task
		}
	}
}

// nameFacts returns the values of placeholders that are the same for all allocations of a group.
func nameFacts(j *structs.Job, g *structs.TaskGroup) map[string]string {
	return map[string]string{
		"GROUP_NAME": g.Name,
		"JOB_ID":     j.ID,
		"JOB_NAME":   j.Name,
		"NAMESPACE":  j.Namespace,
		"REGION":     j.Region,
	}
}

// ServiceName returns the name of a service of a canonical job with the placeholders replaced that have, for
// sure, one value on all nodes. The children of a job have names of their own, and the env of a task has
// precedence on the node.
func ServiceName(j *structs.Job, g *structs.TaskGroup, s structs.OwnedService) string {
	facts := nameFacts(j, g)

	// The children run with IDs and names of their own, so these facts of the parent do not hold for them.
	if j.Periodic != nil || j.ParameterizedJob != nil {
		delete(facts, "JOB_ID")
		delete(facts, "JOB_NAME")
	}
	if t := g.Task(s.Owner); t != nil {
		facts["TASK_NAME"] = t.Name

		// The task sets the variable itself, under one of its names, and may set another value.
		for name := range t.Env {
			maps.DeleteFunc(facts, func(fact, _ string) bool { return strings.HasSuffix(name, fact) })
		}
	}
	return expandFacts(s.Name, facts)
}

// expandFacts replaces the placeholders of facts under all their names.
func expandFacts(name string, facts map[string]string) string {
	// Most names have none, and a replacer costs memory.
	if !structs.HasPlaceholder(name) {
		return name
	}
	var pairs []string
	for key, value := range facts {
		for _, prefix := range []string{"BERTH_", "NOMAD_", "env.BERTH_", "env.NOMAD_"} {
			pairs = append(pairs, "${"+prefix+key+"}", value)
		}
	}
	return strings.NewReplacer(pairs...).Replace(name)
}

// canonicalizeProxy moves the older forms of the paths that a proxy exposes to the present one, and completes
// them.
func canonicalizeProxy(p *structs.ConnectProxy) {
	if p.ExposeConfig != nil {
		p.Expose = p.ExposeConfig
		p.ExposeConfig = nil
	}

	e := p.Expose
	if e == nil {
		return
	}

	if len(e.Paths) == 0 {
		e.Paths = e.Path
	}

	e.Path = nil
	if len(e.Paths) == 0 {
		p.Expose = nil // clients of the dialect may send an empty one
		return
	}

	for _, path := range e.Paths {
		if path != nil {
			setDefault(&path.Protocol, structs.DefaultExposeProtocol)
		}
	}
}

// canonicalizeGateway completes a gateway. It always has a proxy, so that readers need not ask for one.
func canonicalizeGateway(g *structs.Gateway) {
	if g.Proxy == nil {
		g.Proxy = &structs.GatewayProxy{}
	}

	setDefault(&g.Proxy.ConnectTimeout, new(gatewayTimeout))
	for _, a := range g.Proxy.EnvoyGatewayBindAddresses {
		if a != nil {
			a.Name = "" // clients of the dialect repeat the key of the map
		}
	}

	if g.Ingress == nil {
		return
	}

	for _, l := range g.Ingress.Listeners {
		if l != nil {
			setDefault(&l.Protocol, structs.DefaultListenerProtocol)
		}
	}
}
