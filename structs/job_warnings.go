package structs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Warnings returns a line for each part of a job that is accepted and has not the effect that a reader may
// expect, with its path. They are about the job as its user wrote it, before Canonicalize.
func (j *Job) Warnings() []string {
	var all []string
	for _, g := range j.TaskGroups {
		if g == nil {
			continue
		}
		path := fmt.Sprintf("job %q: group %q: ", Cut(j.ID, MaxQuoted), Cut(g.Name, MaxQuoted))
		for _, line := range g.warnings() {
			all = append(all, path+line)
		}
	}
	return append(all, j.updateWarnings()...)
}

func (g *TaskGroup) warnings() []string {
	var all []string
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[alias]
		if v != nil && strings.Contains(v.Source, "${") {
			all = append(all, fmt.Sprintf("volume %q: source %q is used as it is, "+
				"because nothing replaces ${...} in it", Cut(alias, MaxQuoted),
				Cut(v.Source, MaxQuoted)))
		}
	}

	for _, t := range g.Tasks {
		if t != nil && t.Resources != nil && t.Resources.DiskMB != 0 {
			all = append(all, fmt.Sprintf("task %q: resources: disk %d has no effect: "+
				"the group's ephemeral_disk requests scratch space", Cut(t.Name, MaxQuoted), t.Resources.DiskMB))
		}
	}

	all = append(all, g.networkWarnings()...)
	return append(all, g.connectWarnings()...)
}

// connectWarnings are about ports within a network namespace that nothing outside of it reaches.
func (g *TaskGroup) connectWarnings() []string {
	if !g.Network().Isolated() {
		return nil
	}

	var all []string
	for i, s := range g.Services {
		if s == nil || s.Connect == nil {
			continue
		}

		for n, c := range s.Checks {
			if c != nil && s.hidesCheck(c) {
				all = append(all, fmt.Sprintf("service %d: check %d: it does not reach port %s in the network "+
					"namespace of the group; use expose, or a port of the group", i+1, n+1,
					Cut(cmp.Or(c.PortLabel, s.PortLabel), MaxQuoted)))
			}
		}

		if s.Connect.Gateway == nil || s.Connect.Gateway.Ingress == nil {
			continue
		}

		for n, l := range s.Connect.Gateway.Ingress.Listeners {
			if l != nil && !g.mapsPort(l.Port) {
				all = append(all, fmt.Sprintf("service %d: connect: gateway: ingress: listener %d: nothing reaches "+
					"its port %d, because no port of the group has to = %d", i+1, n+1, l.Port, l.Port))
			}
		}
	}

	return all
}

// hidesCheck reports whether a check of Consul connects to a port that only the proxy of the service reaches.
func (s *Service) hidesCheck(c *ServiceCheck) bool {
	if s.Connect.SidecarService == nil || c.Expose || c.Type == CheckScript ||
		cmp.Or(c.AddressMode, s.AddressMode) == "alloc" {
		return false
	}
	_, err := strconv.Atoi(cmp.Or(c.PortLabel, s.PortLabel))
	return err == nil
}

// mapsPort reports whether a port of the group leads to a port in its network namespace.
func (g *TaskGroup) mapsPort(inside int) bool {
	return slices.ContainsFunc(g.PortDemands(), func(p Port) bool { return cmp.Or(p.To, p.Value) == inside })
}

// networkWarnings are about settings of the network that tasks of raw_exec do not see.
func (g *TaskGroup) networkWarnings() []string {
	n := g.Network()
	if n == nil || n.DNS.IsEmpty() && n.Hostname == "" {
		return nil
	}
	var all []string
	for _, t := range g.Tasks {
		if t != nil && t.Driver == "raw_exec" {
			all = append(all, fmt.Sprintf("task %q: raw_exec shows it the files and the name of the node: "+
				"dns and hostname of the network have no effect on it", Cut(t.Name, MaxQuoted)))
		}
	}
	return all
}

// perNodeWarnings are about the parts of a job of every node that the dialect ignores, too.
func (j *Job) perNodeWarnings() (all []string) {
	for _, g := range j.TaskGroups {
		if g == nil {
			continue
		}
		u := cmp.Or(g.Update, j.Update)
		if j.Type == JobSystem && u != nil && u.Canary > 0 {
			all = append(all, fmt.Sprintf("group %q: update: canary %d has no effect: a system job has one "+
				"allocation on each node", Cut(g.Name, MaxQuoted), u.Canary))
		}
		if j.Type == JobSysBatch && g.ReschedulePolicy != nil && *g.ReschedulePolicy != (ReschedulePolicy{}) {
			all = append(all, fmt.Sprintf("group %q: reschedule has no effect: the instances of a sysbatch job "+
				"belong to their nodes", Cut(g.Name, MaxQuoted)))
		}
	}
	return all
}
