package validate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/structs"
)

// JobWarnings returns a line for each part of a job that is accepted and has not the effect that a reader may
// expect, with its path. They are about the job as its user wrote it, before Canonicalize.
func JobWarnings(j *structs.Job) []string {
	var all []string
	for _, g := range j.TaskGroups {
		if g == nil {
			continue
		}

		path := fmt.Sprintf("job %q: group %q: ", structs.Cut(j.ID, structs.MaxQuoted),
			structs.Cut(g.Name, structs.MaxQuoted))
		for _, line := range groupWarnings(g) {
			all = append(all, path+line)
		}
	}

	return append(all, updateWarnings(j)...)
}

// groupWarnings returns the lines about one group, without its path.
func groupWarnings(g *structs.TaskGroup) []string {
	var all []string
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[alias]
		if v != nil && strings.Contains(v.Source, "${") {
			all = append(all, fmt.Sprintf("volume %q: source %q is used as it is, "+
				"because nothing replaces ${...} in it", structs.Cut(alias, structs.MaxQuoted),
				structs.Cut(v.Source, structs.MaxQuoted)))
		}
	}

	for _, t := range g.Tasks {
		if t != nil && t.Resources != nil && t.Resources.DiskMB != 0 {
			all = append(all, fmt.Sprintf("task %q: resources: disk %d has no effect: "+
				"the group's ephemeral_disk requests scratch space", structs.Cut(t.Name, structs.MaxQuoted),
				t.Resources.DiskMB))
		}
	}

	all = append(all, consulWarnings(g)...)
	all = append(all, networkWarnings(g)...)
	return append(all, connectWarnings(g)...)
}

// connectWarnings are about ports within a network namespace that nothing outside of it reaches.
func connectWarnings(g *structs.TaskGroup) []string {
	if !g.Network().Isolated() {
		return nil
	}

	var all []string
	for i, s := range g.Services {
		if s == nil || s.Connect == nil {
			continue
		}

		for n, c := range s.Checks {
			if c != nil && hidesCheck(s, c) {
				all = append(all,
					fmt.Sprintf("service %d: check %d: it does not reach port %s in the network "+
						"namespace of the group; use expose, or a port of the group", i+1, n+1,
						structs.Cut(cmp.Or(c.PortLabel, s.PortLabel), structs.MaxQuoted)))
			}
		}

		if s.Connect.Gateway == nil || s.Connect.Gateway.Ingress == nil {
			continue
		}

		for n, l := range s.Connect.Gateway.Ingress.Listeners {
			if l != nil && !mapsPort(g, l.Port) {
				all = append(all,
					fmt.Sprintf("service %d: connect: gateway: ingress: listener %d: nothing reaches "+
						"its port %d, because no port of the group has to = %d", i+1, n+1, l.Port, l.Port))
			}
		}
	}

	return all
}

// hidesCheck reports whether a check of Consul connects to a port that only the proxy of the service reaches.
func hidesCheck(s *structs.Service, c *structs.ServiceCheck) bool {
	if s.Connect.SidecarService == nil || c.Expose || c.Type == structs.CheckScript ||
		cmp.Or(c.AddressMode, s.AddressMode) == "alloc" {
		return false
	}
	_, err := strconv.Atoi(cmp.Or(c.PortLabel, s.PortLabel))
	return err == nil
}

// mapsPort reports whether a port of the group leads to a port in its network namespace.
func mapsPort(g *structs.TaskGroup, inside int) bool {
	return slices.ContainsFunc(g.PortDemands(), func(p structs.Port) bool {
		return cmp.Or(p.To, p.Value) == inside
	})
}

// networkWarnings are about settings of the network that tasks of raw_exec do not see.
func networkWarnings(g *structs.TaskGroup) []string {
	n := g.Network()
	if n == nil || n.DNS.IsEmpty() && n.Hostname == "" {
		return nil
	}

	var all []string
	for _, t := range g.Tasks {
		if t != nil && t.Driver == "raw_exec" {
			all = append(all, fmt.Sprintf("task %q: raw_exec shows it the files and the name of the node: "+
				"dns and hostname of the network have no effect on it",
				structs.Cut(t.Name, structs.MaxQuoted)))
		}
	}

	return all
}

// perNodeWarnings are about the parts of a job of every node that the dialect ignores, too.
func perNodeWarnings(j *structs.Job) (all []string) {
	for _, g := range j.TaskGroups {
		if g == nil {
			continue
		}

		u := cmp.Or(g.Update, j.Update)
		if j.Type == structs.JobSystem && u != nil && u.Canary > 0 {
			all = append(all, fmt.Sprintf("group %q: update: canary %d has no effect: a system job has one "+
				"allocation on each node", structs.Cut(g.Name, structs.MaxQuoted), u.Canary))
		}

		if j.Type == structs.JobSysBatch && g.ReschedulePolicy != nil &&
			*g.ReschedulePolicy != (structs.ReschedulePolicy{}) {
			all = append(all,
				fmt.Sprintf("group %q: reschedule has no effect: the instances of a sysbatch job belong to their nodes", structs.Cut(g.Name, structs.MaxQuoted)))
		}
	}

	return all
}

// updateWarnings describes strategies that do not do what their writer may expect.
func updateWarnings(j *structs.Job) []string {
	if j.Type == structs.JobSystem || j.Type == structs.JobSysBatch {
		return perNodeWarnings(j)
	}

	// One setting for a group holds the promotion of all: see Deployment.AutoPromotes.
	canaries := 0
	promoted := 0
	for _, g := range j.TaskGroups {
		if g == nil || g.Update == nil || g.Update.Canary == 0 {
			continue
		}

		canaries++
		if g.Update.AutoPromote {
			promoted++
		}
	}

	if promoted == 0 || promoted == canaries {
		return nil
	}

	return []string{"auto_promote is set for some groups with canaries and not for others; " +
		"canaries are promoted without an operator only if it is set for all"}
}
