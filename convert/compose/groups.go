package compose

import (
	"maps"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"berth/structs"
)

// groups divides the services into groups, in the order of their names.
func (c *converter) groups() [][]string {
	leader := map[string]string{}
	for _, name := range c.names() {
		leader[name] = name
	}
	join := func(a, b string) {
		from := max(leader[a], leader[b])
		to := min(leader[a], leader[b])
		for name, l := range leader {
			if l == from {
				leader[name] = to
			}
		}
	}

	users := map[string]string{} // a user of each volume
	for _, name := range c.names() {
		s := c.project.Services[name]
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeVolume || v.Source == "" {
				continue
			}
			if other, shared := users[v.Source]; shared {
				join(name, other)
			}
			users[v.Source] = name
		}
		other, shares := strings.CutPrefix(s.NetworkMode, "service:")
		if _, exists := leader[other]; shares && exists {
			join(name, other)
		}
		if of := c.before(name); of != "" {
			join(name, of)
		}
	}
	return c.nameGroups(leader)
}

// maxGroupName is the most bytes of the name of a group that is made of several names.
const maxGroupName = 60

func (c *converter) nameGroups(leader map[string]string) [][]string {
	members := map[string][]string{}
	for _, name := range c.names() {
		members[leader[name]] = append(members[leader[name]], name)
	}
	var all [][]string
	for _, first := range slices.Sorted(maps.Keys(members)) {
		list := members[first]
		name := strings.Join(list, "-")
		if len(name) > maxGroupName {
			name = first
		}
		for _, m := range list {
			c.groupOf[m] = name
		}
		all = append(all, list)
	}
	return all
}

// before returns the only service that starts after the end of a service, "" if there is not exactly one.
// Such a service has no ports: others might use them.
func (c *converter) before(name string) string {
	of := ""
	users := 0
	for _, other := range c.names() {
		d, depends := c.project.Services[other].DependsOn[name]
		if !depends {
			continue
		}
		users++
		if d.Condition == types.ServiceConditionCompletedSuccessfully {
			of = other
		}
	}
	s := c.project.Services[name]
	if users != 1 || len(s.Ports) > 0 {
		return ""
	}
	return of
}

// prestart makes a task that ends before the others of its group start.
func (c *converter) prestart(g *structs.TaskGroup, t *structs.Task, s *types.ServiceConfig) {
	of := c.before(s.Name)
	if of == "" {
		return
	}
	t.Lifecycle = &structs.TaskLifecycle{Hook: structs.LifecyclePrestart}
	if g.Count > 1 {
		c.note(g.Name+"/"+t.Name, "it runs before each instance of %s, and not once before all", of)
	}
}

// dependencies notes the order of services that a job does not have.
func (c *converter) dependencies(place string, s *types.ServiceConfig) {
	for _, other := range slices.Sorted(maps.Keys(s.DependsOn)) {
		switch {
		case c.before(other) == s.Name:
		case c.groupOf[other] == c.groupOf[s.Name]:
			c.lost(place, "depends_on "+other, "both start together; let the program try again, or make one of "+
				"them a prestart sidecar")
		default:
			c.lost(place, "depends_on "+other, "groups start in any order; a task starts again when a template "+
				"has another address of the service")
		}
	}
}
