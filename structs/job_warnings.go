package structs

import (
	"fmt"
	"maps"
	"slices"
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
	return append(all, g.networkWarnings()...)
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
